package strictjson

import (
	"encoding/json"
	"testing"
)

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":{"b":[1,"b",{"a":null}]},"b":"a"}`, `{"a":1,"A":2}`, `{"a\u0062":{"":1,"":2}}`, `[{"a" :"\"}"},{"a":1}]`,
		`{"critical":null}`, `[{"a":[1,"b",null,true]}]`,
	} {
		f.Add([]byte(seed), 8)
	}
	f.Fuzz(func(t *testing.T, content []byte, depth int) {
		// A glance accepts nothing that the thorough reader refuses.
		if Plain(content, depth) && readThoroughly(content, depth) != nil {
			t.Errorf("%q is not plain: %v", content, readThoroughly(content, depth))
		}
		// Two readers agree on what is not refused.
		var loose, exact any
		if Check(content, depth) == nil && json.Unmarshal(content, &loose) == nil && Decode(content, depth, &exact) != nil {
			t.Errorf("%q reads in two ways", content)
		}
	})
}
