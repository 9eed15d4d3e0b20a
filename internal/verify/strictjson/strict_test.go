package strictjson_test

import (
	"strings"
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/verify/strictjson"
)

// What is no JSON that all readers read alike is refused in words.
func TestWhatReadsInTwoWaysIsRefused(t *testing.T) {
	for name, row := range map[string]struct{ content, want string }{
		"an object":                    {`{"a":{"b":[1,"b",{"a":null}]},"b":"a"}`, ""},
		"a number":                     {`7`, ""},
		"keys that need a second look": {`{"é":1,"\u0061":2}`, ""},
		"as deep as is allowed":        {strings.Repeat("[", 8) + strings.Repeat("]", 8), ""},

		"deeper":                        {strings.Repeat("[", 9) + strings.Repeat("]", 9), "it is nested deeper than 8 levels"},
		"much deeper, and without end":  {strings.Repeat(`{"a":`, 1<<20), "it is nested deeper than 8 levels"},
		"a key twice":                   {`{"a":1,"a":2}`, `it has the key "a" twice in one object`},
		"a key twice, deep":             {`[{"b":{"a":1,"c":[{}],"a":2}}]`, `it has the key "a" twice in one object`},
		"a key in two cases":            {`{"a":1,"A":2}`, `it has the key "A" twice in one object`},
		"a key, and escaped":            {`{"a":1,"\u0061":2}`, `it has the key "a" twice in one object`},
		"a key, and as it folds":        {`{"s":1,"ſ":2}`, `it has the key "\u017f" twice in one object`},
		"a key that is long":            {`{"` + strings.Repeat("k", 1<<10) + `":1,"` + strings.Repeat("k", 1<<10) + `":1}`, `it has the key "` + strings.Repeat("k", 160) + `"… twice in one object`},
		"what is not UTF-8":             {"{\"a\":\"\xff\"}", "it is not UTF-8"},
		"more than one value":           {`{}{}`, "it is more than one JSON value"},
		"half a value":                  {`{"a":`, "it is not JSON"},
		"a bracket of the other kind":   {`{"a":1]`, "it is not JSON"},
		"nothing":                       {``, "it is not JSON"},
		"something of another language": {`{a: 1}`, "it is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := strictjson.Check([]byte(row.content), 8); err != nil {
				got = err.Error()
			}
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// Go's own reader would take the one key for the other.
func TestKeysCountInTheirCaseAlone(t *testing.T) {
	var into struct {
		Digest string `json:"digest"`
	}
	if err := strictjson.Decode([]byte(`{"DIGEST":"a"}`), 8, &into); err != nil || into.Digest != "" {
		t.Errorf("read %q, %v", into.Digest, err)
	}
	if err := strictjson.Decode([]byte(`{"digest":["a"]}`), 8, &into); err == nil {
		t.Error("a list was read as a text")
	}
}
