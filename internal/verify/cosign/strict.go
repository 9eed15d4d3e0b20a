package cosign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// maxDepth bounds how deep JSON may be nested.
const maxDepth = 64

// unambiguous refuses JSON that two readers could read in two ways: one value,
// in UTF-8, in which no object has a key twice. Keys that differ in case only
// count as one, since some readers take them for one.
func unambiguous(content []byte) error {
	if verify.PlainJSON(content, maxDepth) {
		return nil
	}
	return readThoroughly(content)
}

// readThoroughly decides, token by token, what is not plain, and says what is wrong
// with it.
func readThoroughly(content []byte) error {
	if !utf8.Valid(content) {
		return errors.New("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	type level struct {
		keys  map[string]struct{} // nil in an array
		value bool                // in an object, the next token is a value
	}
	var levels []level
	for read := false; ; read = true {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) && read && len(levels) == 0 {
			return nil
		}
		if err != nil {
			return errors.New("it is not JSON")
		}
		if read && len(levels) == 0 {
			return errors.New("it is more than one JSON value")
		}
		if delimiter, ok := token.(json.Delim); ok && (delimiter == '}' || delimiter == ']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if len(levels) > 0 {
			top := &levels[len(levels)-1]
			switch {
			case top.keys == nil:
			case !top.value:
				name, _ := token.(string)
				folded := fold(name)
				if _, twice := top.keys[folded]; twice {
					return fmt.Errorf("it has the key %s twice in one object", quote(name))
				}
				top.keys[folded] = struct{}{}
				top.value = true
				continue
			default:
				top.value = false
			}
		}
		if delimiter, ok := token.(json.Delim); ok {
			if len(levels) == maxDepth {
				return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
			}
			next := level{}
			if delimiter == '{' {
				next.keys = map[string]struct{}{}
			}
			levels = append(levels, next)
		}
	}
}

// fold maps texts that differ in case only to one.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, s)
}

// decode reads unambiguous JSON, with keys in exactly the case of the fields.
func decode(content []byte, into any) error {
	if err := unambiguous(content); err != nil {
		return err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(content, into); err != nil {
		return errors.New("a value is of another type than it should be")
	}
	return nil
}
