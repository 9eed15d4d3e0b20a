package executor

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// scopeKind orders scopes: the greater is the more specific.
type scopeKind int

const (
	everything scopeKind = iota
	domain               // *.example.com
	prefix               // host/path/*
	exact                // host/path
)

// Scope names repositories. It is comparable: two scopes that are spelled differently and cover the same are equal.
type Scope struct {
	kind scopeKind
	// key is what is compared: nothing, ".example.com", "host/path/" or "host/path", with the host as
	// image.ComparableHost writes it.
	key string
}

// ParseScope reads a scope: host/path, host/path/*, *.domain or *.
func ParseScope(text v1alpha1.Scope) (Scope, error) {
	s := string(text)
	refuse := func(remedy string) (Scope, error) { return Scope{}, fmt.Errorf("scope %q: %s", text, remedy) }
	switch rest, isDomain := strings.CutPrefix(s, "*."); {
	case s == "*":
		return Scope{kind: everything}, nil
	case isDomain:
		if hasBadPort(rest) {
			return refuse(badPort)
		}
		if name, _, _ := strings.Cut(rest, ":"); endsInNumber(name) {
			return refuse("a domain does not end in a number; write each address as a registry, as 10.0.0.5/*")
		}
		if _, err := image.Parse(strings.ToLower(rest) + "/a:a"); err != nil || strings.ContainsAny(rest, "/*") || !strings.ContainsAny(rest, ".:") && !isLabel(rest) {
			return refuse("write the registries of a domain as *.example.com")
		}
		return Scope{domain, "." + image.ComparableHost(rest, false)}, nil
	}
	host, path, found := strings.Cut(s, "/")
	host = strings.ToLower(host) // a host means the same in any case, also where the grammar of references does not have it
	if !found || host == "" || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return refuse("begin it with its registry, as registry.example.com/team/app or registry.example.com/*")
	}
	if !image.IsPlainHost(host) {
		written := "four decimal numbers"
		if canonical := image.ComparableHost(host, false); canonical != strings.ToLower(host) {
			written = canonical
		}
		return refuse("its registry ends in a number that is no address in its usual form, so programs disagree where it leads; write the address as " + written)
	}
	kind := exact
	if path == "*" {
		kind, path = prefix, ""
	} else if before, isPrefix := strings.CutSuffix(path, "/*"); isPrefix {
		kind, path = prefix, before
	}
	probe := path
	if kind == prefix {
		probe = strings.TrimPrefix(path+"/a", "/")
	}
	ref, err := image.Parse(host + "/" + probe + ":a")
	if err != nil || ref.Tag() != "a" || !ref.Digest().IsZero() || strings.HasSuffix(path, "/") {
		var malformed *image.ParseError
		if errors.As(err, &malformed) && malformed.Part == image.PartPort {
			return refuse(badPort)
		}
		return refuse("write a repository as registry.example.com/team/app, without tag or digest, or everything below a path as registry.example.com/team/*")
	}
	key := ref.RepositoryKey() // docker.io/nginx is docker.io/library/nginx
	if kind == prefix {
		key = image.ComparableHost(host, false) + "/" + path
		if path != "" {
			key += "/"
		}
	}
	return Scope{kind, key}, nil
}

const badPort = "its port is not between 1 and 65535; write the port of the registry, or leave it out"

// hasBadPort reports whether a host is written with a port that nobody can dial.
func hasBadPort(host string) bool {
	_, port, found := strings.Cut(host, ":")
	if !found || strings.Trim(port, "0123456789") != "" {
		return false // what else may be wrong with it is told as that
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err != nil || n == 0
}

// endsInNumber reports whether a name could be taken for an address.
func endsInNumber(name string) bool {
	return name != "" && (!image.IsPlainHost(name) || isAddress(name))
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// isLabel reports whether a domain is a single label, which image.Parse would take for a path.
func isLabel(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// String is the scope in the one way that all its spellings share.
func (s Scope) String() string {
	switch s.kind {
	case everything:
		return "*"
	case domain:
		return "*" + s.key
	case prefix:
		return s.key + "*"
	default:
		return s.key
	}
}

// Covers reports whether a repository is in the scope.
func (s Scope) Covers(ref image.Reference) bool {
	key := ref.RepositoryKey()
	switch s.kind {
	case everything:
		return key != ""
	case domain:
		host, _, _ := strings.Cut(key, "/")
		return strings.HasSuffix(host, s.key) && len(host) > len(s.key)
	case prefix:
		return strings.HasPrefix(key, s.key)
	default:
		return key == s.key
	}
}

// compareScopes orders the most specific first: a repository before a path, the longer path before the shorter, a
// registry's domain after both, the longer first, and everything last.
func compareScopes(a, b Scope) int {
	return cmp.Or(cmp.Compare(b.kind, a.kind), cmp.Compare(len(b.key), len(a.key)), strings.Compare(a.key, b.key))
}

// ParseScopes reads all scopes of a spec, the most specific first. Those that are malformed are left out and told in
// the error.
func ParseScopes(texts []v1alpha1.Scope) ([]Scope, error) {
	var scopes []Scope
	var errs []error
	for i, text := range texts {
		s, err := ParseScope(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("scopes[%d]: %w", i, err))
			continue
		}
		scopes = append(scopes, s)
	}
	slices.SortFunc(scopes, compareScopes)
	return slices.Compact(scopes), errors.Join(errs...)
}
