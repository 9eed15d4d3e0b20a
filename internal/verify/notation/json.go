package notation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// maxDepth bounds how deep JSON is nested.
const maxDepth = 32

// readsOneWay refuses JSON that two readers may understand differently: a key that
// stands twice in one object, also in another spelling of upper and lower case,
// as Go's own reader takes the one for the other, and anything after the value.
func readsOneWay(content []byte) error {
	if verify.PlainJSON(content, maxDepth) {
		return nil
	}
	return readThoroughly(content)
}

// readThoroughly decides, token by token, what is not plain, and says what is wrong
// with it.
func readThoroughly(content []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := readValue(decoder, 0); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

func readValue(decoder *json.Decoder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("the JSON is nested deeper than %d", maxDepth)
	}
	token, err := decoder.Token()
	if err != nil {
		return errors.New("it is not JSON")
	}
	switch token {
	case json.Delim('{'):
		keys := map[string]bool{}
		for decoder.More() {
			key, err := decoder.Token()
			if err != nil {
				return errors.New("it is not JSON")
			}
			folded := fold(key.(string)) // the decoder admits nothing else there
			if keys[folded] {
				return fmt.Errorf("the key %s stands there twice", quoted(key.(string)))
			}
			keys[folded] = true
			if err := readValue(decoder, depth+1); err != nil {
				return err
			}
		}
	case json.Delim('['):
		for decoder.More() {
			if err := readValue(decoder, depth+1); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	if _, err := decoder.Token(); err != nil { // the closing bracket
		return errors.New("it is not JSON")
	}
	return nil
}

// fold maps keys to the same text that encoding/json takes for the same.
func fold(key string) string {
	return strings.Map(func(r rune) rune {
		for folded := unicode.SimpleFold(r); ; folded = unicode.SimpleFold(folded) {
			if folded <= r {
				return folded
			}
		}
	}, key)
}
