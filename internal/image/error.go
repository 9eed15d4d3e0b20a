package image

import (
	"strconv"
	"unicode/utf8"
)

// Kind says which rule a string breaks.
type Kind string

// The kinds of fault.
const (
	// Grammar: the string is no image reference.
	Grammar Kind = "grammar"
	// NoTagOrDigest: it names a repository, but no image in it.
	NoTagOrDigest Kind = "no tag or digest"
	// BareDigest: it is a digest alone, which names no repository.
	BareDigest Kind = "bare digest"
	// Port: the port is none that can be dialled.
	Port Kind = "port"
)

// Part names a piece of a reference.
type Part string

// The parts of a reference, in the order in which they are written.
const (
	PartReference  Part = "reference" // the whole of it
	PartScheme     Part = "scheme"
	PartUserinfo   Part = "user information"
	PartHost       Part = "host"
	PartPort       Part = "port"
	PartRepository Part = "repository"
	PartTag        Part = "tag"
	PartDigest     Part = "digest"
)

// ParseError says what is wrong with a reference, where, and what to write
// instead. Its text is the same for the same input, holds nothing unquoted
// that the input brought, and is bounded.
type ParseError struct {
	Kind Kind
	Part Part
	// Offending holds the bytes at fault as they came: quote them to show them.
	Offending string
	Reason    string
	Remedy    string
}

// Error is one line: the part, the offending bytes, the reason and the remedy.
func (e *ParseError) Error() string {
	return "image " + string(e.Part) + " " + quote(e.Offending) + ": " + e.Reason + "; " + e.Remedy
}

// maxQuoted bounds, in bytes before escaping, what an error repeats of its
// input.
const maxQuoted = 64

// quote shows every byte of s that is not printable ASCII by its escape, so
// that look-alikes and invisible characters are seen.
func quote(s string) string {
	short := cut(s, maxQuoted)
	if len(short) == len(s) {
		return strconv.QuoteToASCII(s)
	}
	return strconv.QuoteToASCII(short) + "… (" + strconv.Itoa(len(s)) + " bytes)"
}

// cut shortens s to at most n bytes without splitting a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
