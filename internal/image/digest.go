package image

import (
	"crypto/sha256"
	_ "crypto/sha512" // the algorithms that a digest may name
	"encoding/hex"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Digest identifies content by its hash. It is comparable; the zero value
// identifies nothing.
type Digest struct{ d digest.Digest }

// ParseDigest reads algorithm:hex, for sha256, sha384 and sha512. The error is
// always a *ParseError.
func ParseDigest(s string) (Digest, error) {
	if hex, ok := strings.CutPrefix(s, "sha256:"); ok && isHex(hex, 2*sha256.Size) { // as nearly always
		return Digest{digest.Digest(s)}, nil
	}
	d, err := digest.Parse(s)
	if err != nil {
		return Digest{}, diagnoseDigest(s)
	}
	return Digest{d}, nil
}

// isHex reports whether s is so many digits, in lower case.
func isHex(s string, digits int) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == digits
}

// DigestOf is the sha256 digest of content.
func DigestOf(content []byte) Digest {
	sum := hexOf(content)
	return Digest{digest.NewDigestFromEncoded(digest.SHA256, string(sum[:]))}
}

// hexOf is the sha256 of content in hexadecimal.
func hexOf(content []byte) (text [2 * sha256.Size]byte) {
	sum := sha256.Sum256(content)
	hex.Encode(text[:], sum[:])
	return text
}

// IsZero reports whether d identifies nothing.
func (d Digest) IsZero() bool { return d == Digest{} }

// String is algorithm:hex, and empty for the zero value.
func (d Digest) String() string { return string(d.d) }

// Short is the algorithm and the first twelve digits, for people to read.
func (d Digest) Short() string {
	algorithm, hex, found := strings.Cut(string(d.d), ":")
	if !found {
		return ""
	}
	return algorithm + ":" + cut(hex, 12)
}

func (d Digest) isSHA256() bool { return d.d.Algorithm() == digest.SHA256 }

// Matches reports whether content hashes to d.
func (d Digest) Matches(content []byte) bool {
	if d.IsZero() {
		return false
	}
	if d.isSHA256() { // as nearly always
		sum := hexOf(content)
		return d.d.Encoded() == string(sum[:])
	}
	return d.d.Algorithm().FromBytes(content) == d.d
}

// Pinned is an image that cannot move: a repository and a digest. It is
// comparable; the zero value names nothing. Another repository with the same
// digest is another image.
type Pinned struct {
	host, path string
	digest     Digest
}

// ParsePinned reads repository@digest, as String writes it. The error is
// always a *ParseError; a reference with a tag is refused.
func ParsePinned(s string) (Pinned, error) {
	ref, err := Parse(s)
	if err != nil {
		return Pinned{}, err
	}
	if ref.tag != "" || ref.digest.IsZero() {
		return Pinned{}, &ParseError{
			Kind: Grammar, Part: PartReference, Offending: s,
			Reason: "not pinned",
			Remedy: "write repository@digest, without a tag",
		}
	}
	return ref.WithDigest(ref.digest), nil
}

// IsZero reports whether p names nothing.
func (p Pinned) IsZero() bool { return p == Pinned{} }

// String is repository@digest, and empty for the zero value.
func (p Pinned) String() string {
	if p.IsZero() {
		return ""
	}
	return p.Repository() + "@" + p.digest.String()
}

// Repository is the full name of the repository: host/path.
func (p Pinned) Repository() string {
	if p.host == "" {
		return ""
	}
	return p.host + "/" + p.path
}

// Digest is what the image is.
func (p Pinned) Digest() Digest { return p.digest }

// Reference is p as a reference that states the digest alone.
func (p Pinned) Reference() Reference {
	return Reference{host: p.host, path: p.path, digest: p.digest}
}
