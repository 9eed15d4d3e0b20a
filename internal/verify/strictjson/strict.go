package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

// Check refuses JSON, nested at most depth deep, that two readers could read in two
// ways. The error says what is wrong with it, of the JSON as "it".
func Check(content []byte, depth int) error {
	if Plain(content, depth) {
		return nil
	}
	return readThoroughly(content, depth)
}

// Decode reads JSON that Check lets pass, with keys in exactly the case of the fields.
func Decode(content []byte, depth int, into any) error {
	if err := Check(content, depth); err != nil {
		return err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(content, into); err != nil {
		return errors.New("a value is of another type than it should be")
	}
	return nil
}

// readThoroughly decides, token by token, what is not plain, and says what is wrong
// with it.
func readThoroughly(content []byte, depth int) error {
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
			if len(levels) == depth {
				return fmt.Errorf("it is nested deeper than %d levels", depth)
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

// maxQuoted bounds what is repeated of a key, in bytes.
const maxQuoted = 160

// quote is a key that a peer wrote, fit to stand in a message.
func quote(s string) string {
	if len(s) <= maxQuoted {
		return strconv.QuoteToASCII(s)
	}
	return strconv.QuoteToASCII(strings.ToValidUTF8(s[:maxQuoted], "")) + "…"
}
