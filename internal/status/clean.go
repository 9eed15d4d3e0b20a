package status

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of texts, in bytes. They are wider than what Gatehouse writes, so they only meet what somebody else wrote.
const (
	maxName  = 512
	maxLine  = 1024
	maxLines = 8192
)

// cleanLine makes one printable line of a text: whatever moves a cursor, colours, hides, or turns the direction of what
// follows is escaped.
func cleanLine(s string) string { return clean(s, maxLine, false) }

// cleanName does the same to what names something.
func cleanName(s string) string { return clean(s, maxName, false) }

// cleanLines keeps the ends of lines, and is for texts that have several.
func cleanLines(s string) string { return clean(strings.TrimRight(s, "\n"), maxLines, true) }

func clean(s string, limit int, lines bool) string {
	var b strings.Builder
	for s != "" {
		if b.Len() >= limit {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n' && lines, unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		s = s[size:]
	}
	return b.String()
}
