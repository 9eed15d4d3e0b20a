package strictjson

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Bounds of what Plain takes in at a glance: objects and arrays that are open at
// a time, and keys of those objects together.
const (
	plainDepth = 32
	plainKeys  = 64
)

// Plain reports whether content is one JSON value, nested at most depth deep,
// that all readers read alike: it is UTF-8, no object has a key twice, not even in
// another case, and all keys are ASCII and written without escapes. It says no to
// whatever takes more than a glance, also to what is sound: then a thorough reader
// has to decide, and to say why. It allocates nothing, as nearly all that Gatehouse
// reads is plain.
func Plain(content []byte, depth int) bool {
	if !utf8.Valid(content) || !json.Valid(content) {
		return false
	}
	// From here on it is valid: every bracket has its counterpart, and a string that
	// a colon follows is a key of the innermost value.
	var keys [plainKeys][]byte // of all open objects, the innermost last
	var first [plainDepth]int  // where in keys those of each open value begin
	known, open := 0, 0
	for i := 0; i < len(content); i++ {
		switch content[i] {
		case '{', '[':
			if open == min(depth, plainDepth) {
				return false
			}
			first[open] = known
			open++
		case '}', ']':
			open--
			known = first[open]
		case '"':
			begin, plain := i+1, true
			for i = begin; content[i] != '"'; i++ {
				if content[i] == '\\' {
					plain = false
					i++
				} else if content[i] >= utf8.RuneSelf {
					plain = false
				}
			}
			if !isKey(content[i+1:]) {
				continue
			}
			if !plain || known == plainKeys {
				return false
			}
			key := content[begin:i]
			for _, other := range keys[first[open-1]:known] {
				if bytes.EqualFold(other, key) {
					return false
				}
			}
			keys[known] = key
			known++
		}
	}
	return true
}

// isKey reports whether a colon comes next.
func isKey(after []byte) bool {
	for _, c := range after {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ':'
		}
	}
	return false
}
