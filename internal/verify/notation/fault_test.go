package notation

import (
	"strings"
	"testing"
)

func TestTextOfOthersIsQuotedAndBounded(t *testing.T) {
	for text, want := range map[string]string{
		"":               `""`,
		"plain":          `"plain"`,
		"two\nlines":     `"two\nlines"`,
		`"quotes" and \`: `"\"quotes\" and \\"`,
		"\x1b[31mred":    `"\x1b[31mred"`,
		"\u202edetrever": `"\u202edetrever"`,
		"\xff":           `"\ufffd"`,
		"Lčić":           `"Lčić"`,
	} {
		if got := quoted(text); strings.ReplaceAll(got, "�", `\ufffd`) != want {
			t.Errorf("%q is quoted as %s, not as %s", text, got, want)
		}
	}
	for _, piece := range []string{"x", "č", "\x00", "\U0010ffff", "\xff"} {
		got := quoted(strings.Repeat(piece, 1000))
		if len(got) > maxQuoted+10 || !strings.HasSuffix(got, `…"`) {
			t.Errorf("a thousand of %q are quoted as %s", piece, got)
		}
	}
}
