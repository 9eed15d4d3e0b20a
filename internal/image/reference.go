package image

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/distribution/reference"
)

// Bounds of a reference, in bytes. The repository and the tag are bounded by
// the distribution grammar, the host by DNS; MaxLength leaves room for all of
// them and the longest digest.
const (
	MaxLength     = 1024
	maxHostLength = 253
)

// Reference is a parsed image reference. It is comparable, and equal values
// have equal canonical forms. The zero value names nothing: see IsZero.
type Reference struct {
	host   string // as written, with the port; never empty
	path   string // lower case, without the host
	tag    string
	digest Digest // at least one of tag and digest is set
}

// Parse reads an image reference, completing a short name as Docker does. The
// error is always a *ParseError.
func Parse(s string) (Reference, error) {
	if len(s) > MaxLength {
		return Reference{}, &ParseError{
			Kind: Grammar, Part: PartReference, Offending: s,
			Reason: "longer than " + strconv.Itoa(MaxLength) + " bytes",
			Remedy: "write host/repository:tag or host/repository@digest",
		}
	}
	if isBareDigest(s) {
		return Reference{}, &ParseError{
			Kind: BareDigest, Part: PartReference, Offending: s,
			Reason: "a digest without the repository it is in",
			Remedy: "write host/repository@" + cut(strings.ToLower(s), 19) + "…",
		}
	}
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Reference{}, diagnose(s)
	}
	ref := Reference{host: reference.Domain(named), path: reference.Path(named)}
	if ref.host == "" {
		// The distribution grammar knows no host with an underscore and takes
		// one for the first component of the path, Docker takes it for a host.
		ref.host, ref.path, _ = strings.Cut(ref.path, "/")
	}
	if tagged, ok := named.(reference.Tagged); ok {
		ref.tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		ref.digest = Digest{digested.Digest()}
	}
	if err := checkHost(ref.host); err != nil {
		return Reference{}, err
	}
	if ref.tag == "" && ref.digest.IsZero() {
		return Reference{}, &ParseError{
			Kind: NoTagOrDigest, Part: PartReference, Offending: s,
			Reason: "neither a tag nor a digest is stated",
			Remedy: "add one, for example :1.4.2",
		}
	}
	return ref, nil
}

// IsZero reports whether r is the zero value, which names no image.
func (r Reference) IsZero() bool { return r == Reference{} }

// String is the canonical form: it parses to r again.
func (r Reference) String() string {
	if r.IsZero() {
		return ""
	}
	s := r.Repository()
	if r.tag != "" {
		s += ":" + r.tag
	}
	if !r.digest.IsZero() {
		s += "@" + r.digest.String()
	}
	return s
}

// Registry is the host as it was written, with the port if there is one.
func (r Reference) Registry() string { return r.host }

// Path is the name of the repository within its registry.
func (r Reference) Path() string { return r.path }

// Repository is the full name of the repository: host/path.
func (r Reference) Repository() string {
	if r.host == "" {
		return ""
	}
	return r.host + "/" + r.path
}

// Tag is empty if only a digest is stated.
func (r Reference) Tag() string { return r.tag }

// Digest is zero if only a tag is stated.
func (r Reference) Digest() Digest { return r.digest }

// WithDigest is what workloads run once r has been resolved to d: the
// repository and the digest, without the tag, so that another tag of the same
// digest is the same image. It is the zero value if r or d is.
func (r Reference) WithDigest(d Digest) Pinned {
	if r.IsZero() || d.IsZero() {
		return Pinned{}
	}
	return Pinned{host: r.host, path: r.path, digest: d}
}

// Key is the form in which references are compared with scopes: as String, but
// with a host that ComparableHost has normalised for HTTPS. It is for comparing
// alone: a host of one label may no longer read as a host in it.
func (r Reference) Key() string {
	if r.IsZero() {
		return ""
	}
	r.host = ComparableHost(r.host, false)
	return r.String()
}

// RepositoryKey is Key without the tag and the digest.
func (r Reference) RepositoryKey() string {
	if r.IsZero() {
		return ""
	}
	return ComparableHost(r.host, false) + "/" + r.path
}

// dockerHub is the canonical name of Docker Hub.
const dockerHub = "docker.io"

// ComparableHost writes host[:port] in the one way that all spellings of it
// share: lower case, IP addresses in their canonical form, without the default
// port of the scheme, and with the aliases of Docker Hub folded into docker.io.
func ComparableHost(host string, plainHTTP bool) string {
	name, port := splitPort(strings.ToLower(host))
	if addr, ok := Address(name); ok {
		name = addr.String()
		if addr.Is6() {
			name = "[" + name + "]"
		}
	}
	defaultPort := "443"
	if plainHTTP {
		defaultPort = "80"
	}
	port = strings.TrimLeft(port, "0")
	if port == defaultPort {
		port = ""
	}
	if port != "" {
		return name + ":" + port
	}
	switch name {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return dockerHub
	}
	return name
}

// splitPort cuts the port off a host; the brackets of an IPv6 address stay.
func splitPort(host string) (name, port string) {
	if end := strings.LastIndexByte(host, ']'); end >= 0 {
		return host[:end+1], strings.TrimPrefix(host[end+1:], ":")
	}
	name, port, _ = strings.Cut(host, ":")
	return name, port
}

// checkHost refuses what the grammar lets pass but nobody can connect to.
func checkHost(host string) error {
	name, port := splitPort(host)
	if strings.HasPrefix(name, "[") {
		if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err != nil {
			return &ParseError{
				Kind: Grammar, Part: PartHost, Offending: name,
				Reason: "not an IPv6 address",
				Remedy: "write the address in brackets, for example [fd00::1]:5000",
			}
		}
	}
	if len(name) > maxHostLength {
		return &ParseError{
			Kind: Grammar, Part: PartHost, Offending: name,
			Reason: "longer than " + strconv.Itoa(maxHostLength) + " bytes",
			Remedy: "write the DNS name of the registry",
		}
	}
	if strings.Contains(host[len(name):], ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return &ParseError{
				Kind: Port, Part: PartPort, Offending: port,
				Reason: "not between 1 and 65535",
				Remedy: "write the port of the registry, or leave it out",
			}
		}
	}
	return nil
}
