package benchreport

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTargets(t *testing.T) {
	var r Report
	r.Figure("plain", 3, "s")
	r.AtMost("within", 3, "requests", 3)
	r.AtMost("beyond", 3.01, "requests", 3)
	r.Against("near", 3, 2, "s", 1.5)
	r.Against("far", 4, 2, "s", 1.5)
	r.Against("told", 4, 2, "s", 0)
	want := map[string]bool{"plain": true, "within": true, "beyond": false, "near": true, "far": false, "told": true}
	for _, one := range r.Results() {
		if one.OK != want[one.Name] {
			t.Errorf("%s: ok is %v", one.Name, one.OK)
		}
	}
	if got, ok := r.Value("far"); !ok || got != 4 {
		t.Errorf("got %v %v", got, ok)
	}
	if _, ok := r.Value("none"); ok {
		t.Error("found what was never measured")
	}
}

func TestTheTableNamesWhatMissesItsTarget(t *testing.T) {
	var r Report
	r.Figure("plain", 3, "s")
	r.Against("far", 4, 2, "s", 1.5)
	var out strings.Builder
	if err := r.Table(&out); err != nil {
		t.Fatal(err)
	}
	const want = `
NAME   VALUE  UNIT  FLOOR  RATIO  TARGET        OK
plain  3      s
far    4      s     2      2      ratio <= 1.5  NO
`
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if got := strings.Join(lines, "\n"); got != strings.TrimSpace(want) {
		t.Errorf("got\n%s", got)
	}
}

func TestPackagesAddToOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bin", "bench.json")
	var first, second, again Report
	first.Figure("a", 1, "s")
	first.Figure("b", 1, "s")
	second.Against("c", 4, 2, "s", 1.5)
	again.AtMost("a", 2, "s", 3)
	for _, r := range []*Report{&first, &second, &again} {
		if err := r.Store(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[
  {
    "name": "b",
    "value": 1,
    "unit": "s",
    "ok": true
  },
  {
    "name": "c",
    "value": 4,
    "unit": "s",
    "floor": 2,
    "ratio": 2,
    "target": "ratio <= 1.5",
    "ok": false
  },
  {
    "name": "a",
    "value": 2,
    "unit": "s",
    "target": "value <= 3",
    "ok": true
  }
]
`
	if string(text) != want {
		t.Errorf("got %s", text)
	}
	if err := os.WriteFile(path, []byte("none"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := first.Store(path); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("got %v", err)
	}
}
