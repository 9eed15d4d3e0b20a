package image

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/distribution/reference"
)

var (
	bareDigest    = regexp.MustCompile(`^(?:sha256:[[:xdigit:]]{64}|sha384:[[:xdigit:]]{96}|sha512:[[:xdigit:]]{128})$`)
	hexIdentifier = regexp.MustCompile(`^[a-f0-9]{64}$`)
	hostName      = regexp.MustCompile(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*$`)
	pathComponent = regexp.MustCompile(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*$`)
	digestLengths = map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}
)

const (
	remedyForm     = "write host/repository:tag or host/repository@digest"
	remedyDigest   = "write the digest as the registry prints it: sha256: and 64 lower-case hexadecimal digits"
	remedyTag      = "a tag has letters, digits, underscores, dots and dashes, starts with no dot or dash, and has at most 128 of them"
	remedyPath     = "each part between slashes has lower-case letters and digits, joined by one dot, one or two underscores, or dashes"
	remedyHostName = "write the DNS name or address of the registry, with its port if it has one"
)

func isBareDigest(s string) bool { return bareDigest.MatchString(s) }

// diagnose names the part of s that is at fault, for an s which the grammar has
// already refused: the grammar decides, this only explains. The order is that
// of what a person would want to be told first.
func diagnose(s string) *ParseError {
	if s == "" {
		return grammar(PartReference, s, "empty", remedyForm)
	}
	if strings.TrimSpace(s) == "" {
		return grammar(PartReference, s, "nothing but white space", remedyForm)
	}
	if e := diagnoseCharacters(s); e != nil {
		return e
	}
	if before, _, found := strings.Cut(s, "://"); found && !strings.ContainsAny(before, "/@") {
		return grammar(PartScheme, before+"://", "a reference has no scheme", "leave it out")
	}
	if hexIdentifier.MatchString(s) {
		return grammar(PartReference, s, "64 hexadecimal digits are an identifier, not a repository", remedyForm)
	}
	name, digest, hasDigest := strings.Cut(s, "@")
	if hasDigest && strings.Contains(digest, "/") {
		// What stands before the @ may be a password, so it is not repeated.
		return grammar(PartUserinfo, "@", "a reference has no user or password", "give credentials in a Secret of type kubernetes.io/dockerconfigjson")
	}
	if e := diagnoseName(name); e != nil {
		return e
	}
	if hasDigest {
		if e := diagnoseDigest(digest); e != nil {
			return e
		}
	}
	return grammar(PartReference, s, "not an image reference", remedyForm)
}

// diagnoseCharacters finds the first character that stands nowhere in a
// reference.
func diagnoseCharacters(s string) *ParseError {
	for i, r := range s {
		width := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, width = utf8.DecodeRuneInString(s[i:])
		}
		reason, remedy := "", "remove it"
		switch {
		case r == utf8.RuneError && width == 1:
			reason = "not valid UTF-8"
		case unicode.IsSpace(r):
			reason = "white space"
		case unicode.IsControl(r):
			reason = "a control character"
		case r > unicode.MaxASCII:
			reason, remedy = "not an ASCII character", "replace it; it may look like another one, or like nothing"
		case r == '"' || r == '\'':
			reason = "a quotation mark"
		case strings.ContainsRune(`\?#$&;|<>(){}*!,=`+"`^~", r):
			reason = "a character that stands in no reference"
		default:
			continue
		}
		where := ""
		switch i {
		case 0:
			where = " at the beginning"
		case len(s) - width:
			where = " at the end"
		}
		return grammar(partAt(s, i), s[i:i+width], reason+where, remedy)
	}
	return nil
}

// partAt tells in which part of s the byte at i stands.
func partAt(s string, i int) Part {
	if at := strings.IndexByte(s, '@'); at >= 0 && i > at {
		return PartDigest
	}
	slash := strings.LastIndexByte(s[:i], '/')
	if colon := strings.LastIndexByte(s[:i], ':'); colon > slash && (slash >= 0 || !strings.Contains(s[i:], "/")) {
		return PartTag
	}
	if slash < 0 && strings.Contains(s[i:], "/") {
		if first, _, _ := strings.Cut(s, "/"); looksLikeHost(first) {
			return PartHost
		}
	}
	return PartRepository
}

// looksLikeHost is Docker's rule of what the first component of a name is.
func looksLikeHost(component string) bool {
	return component == "localhost" || strings.ContainsAny(component, ".:") || strings.ToLower(component) != component
}

// diagnoseName looks at what stands before the digest.
func diagnoseName(name string) *ParseError {
	if name == "" {
		return grammar(PartRepository, name, "empty", remedyForm)
	}
	path := name
	if first, rest, found := strings.Cut(name, "/"); found && looksLikeHost(first) {
		if e := diagnoseHost(first); e != nil {
			return e
		}
		path = rest
	}
	path, tag, hasTag := strings.Cut(path, ":")
	components := strings.Split(path, "/")
	if i := slices.Index(components, ""); i >= 0 {
		return grammar(PartRepository, path, "a part between slashes is empty", remedyPath)
	}
	for _, component := range components {
		if strings.ToLower(component) != component {
			upper := strings.IndexFunc(component, unicode.IsUpper)
			return grammar(PartRepository, component, "upper case "+quote(component[upper:upper+1]), "a repository is written in lower case")
		}
		if !pathComponent.MatchString(component) {
			return grammar(PartRepository, component, "not the name of a repository", remedyPath)
		}
	}
	if len(path) > reference.RepositoryNameTotalLengthMax {
		return grammar(PartRepository, path, "longer than "+strconv.Itoa(reference.RepositoryNameTotalLengthMax)+" bytes", "shorten it")
	}
	if hasTag {
		return diagnoseTag(tag)
	}
	return nil
}

func diagnoseHost(host string) *ParseError {
	name, port := splitPort(host)
	if host != name && !strings.HasPrefix(host[len(name):], ":") {
		return grammar(PartHost, host, "something stands after the bracket", remedyHostName)
	}
	if strings.HasPrefix(name, "[") {
		if strings.Contains(name, "%") {
			return grammar(PartHost, name, "an address with a zone", "write the address without its zone")
		}
		if strings.Trim(name, "[]0123456789abcdefABCDEF:") != "" {
			return grammar(PartHost, name, "not an IPv6 address", "write the address in brackets, for example [fd00::1]:5000")
		}
	} else if !hostName.MatchString(name) {
		return grammar(PartHost, name, "not a host name", remedyHostName)
	}
	if host != name && (port == "" || strings.Trim(port, "0123456789") != "") {
		return grammar(PartPort, port, "not a number", "write the port of the registry, or leave it out with its colon")
	}
	return nil
}

func diagnoseTag(tag string) *ParseError {
	switch {
	case tag == "":
		return grammar(PartTag, tag, "empty", "write the tag after the colon")
	case strings.Contains(tag, ":"):
		return grammar(PartTag, tag, "a second colon", "write one tag")
	case len(tag) > 128:
		return grammar(PartTag, tag, "longer than 128 characters", remedyTag)
	case tag[0] == '.' || tag[0] == '-':
		return grammar(PartTag, tag, "starts with "+quote(tag[:1]), remedyTag)
	}
	for i := range len(tag) {
		if c := rune(tag[i]); c != '_' && c != '.' && c != '-' && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return grammar(PartTag, tag, "holds "+quote(tag[i:i+1]), remedyTag)
		}
	}
	return nil
}

func diagnoseDigest(digest string) *ParseError {
	algorithm, hex, found := strings.Cut(digest, ":")
	length, known := digestLengths[algorithm]
	switch {
	case digest == "":
		return grammar(PartDigest, digest, "empty", "write the digest after the @")
	case strings.Contains(digest, "@"):
		return grammar(PartDigest, digest, "a second digest", "write one digest")
	case !found:
		return grammar(PartDigest, digest, "no algorithm", remedyDigest)
	case !known:
		return grammar(PartDigest, algorithm, "not an algorithm that is trusted", "use a sha256, sha384 or sha512 digest")
	case strings.Contains(hex, ":"):
		return grammar(PartDigest, digest, "something stands after the digest", "write the tag before the digest: repository:tag@digest")
	case strings.Trim(hex, "0123456789abcdef") != "" && strings.Trim(hex, "0123456789abcdefABCDEF") == "":
		return grammar(PartDigest, digest, "upper-case digits", remedyDigest)
	case strings.Trim(hex, "0123456789abcdef") != "":
		return grammar(PartDigest, digest, "not hexadecimal", remedyDigest)
	case len(hex) != length:
		return grammar(PartDigest, digest, strconv.Itoa(len(hex))+" digits instead of "+strconv.Itoa(length), remedyDigest)
	}
	return grammar(PartDigest, digest, "not a digest", remedyDigest)
}

func grammar(part Part, offending, reason, remedy string) *ParseError {
	return &ParseError{Kind: Grammar, Part: part, Offending: offending, Reason: reason, Remedy: remedy}
}
