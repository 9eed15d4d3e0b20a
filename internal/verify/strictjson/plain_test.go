package strictjson_test

import (
	"strings"
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/verify/strictjson"
)

func TestPlainIsWhatNobodyReadsInTwoWays(t *testing.T) {
	many := func(keys int) string {
		var b strings.Builder
		for i := range keys {
			b.WriteString(`"` + strings.Repeat("x", i+1) + `":0,`)
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	for name, test := range map[string]struct {
		content string
		plain   bool
	}{
		"an object":                    {`{"a": {"b": [1, "b", {"a": null}]}, "b" : "a"}`, true},
		"a key that is also a value":   {`{"a":"b","b":"a:","c":["a","a"]}`, true},
		"the same key beside":          {`[{"a":1},{"a":2}]`, true},
		"the same key after a nest":    {`{"a":{"b":1,"c":2},"d":{"b":1}}`, true},
		"quotes and brackets in texts": {`{"a":"\"}]{[\\","b":"\\\""}`, true},
		"text that is not ASCII":       {`{"a":"é"}`, true},
		"a number":                     {`7`, true},
		"as deep as is allowed":        {strings.Repeat("[", 8) + strings.Repeat("]", 8), true},
		"as many keys as are counted":  {many(64), true},

		"deeper":                      {strings.Repeat("[", 9) + strings.Repeat("]", 9), false},
		"more keys":                   {many(65), false},
		"a key twice":                 {`{"a":1,"a":2}`, false},
		"a key twice around a nest":   {`{"a":{"b":{}},"a":2}`, false},
		"a key twice, deep":           {`[{"b":{"a":1,"c":[{}],"a":2}}]`, false},
		"a key in two cases":          {`{"a":1,"A":2}`, false},
		"a key with an escape":        {`{"\u0061":1}`, false},
		"a key with an escaped quote": {`{"a\"":1}`, false},
		"a key of another alphabet":   {`{"ſ":1}`, false},
		"a key twice before spaces":   {"{\"a\"\n\t :1,\"a\" \r:2}", false},
		"the empty key twice":         {`{"":1,"":2}`, false},
		"what is not UTF-8":           {"{\"a\":\"\xff\"}", false},
		"more than one value":         {`{}{}`, false},
		"half a value":                {`{"a":`, false},
		"a bracket of the other kind": {`{"a":1]`, false},
		"nothing":                     {``, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strictjson.Plain([]byte(test.content), 8); got != test.plain {
				t.Errorf("Plain(%s) = %v", test.content, got)
			}
		})
	}
}
