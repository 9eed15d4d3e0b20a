package image_test

import (
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// All spellings of an address are compared as the one that people write.
func TestSpellingsOfAnAddress(t *testing.T) {
	for canonical, spellings := range map[string][]string{
		"127.0.0.1":      {"127.0.0.1", "127.1", "127.0.1", "0177.0.0.1", "0x7f.1", "0X7F.0.0.1", "2130706433", "0x7f000001", "017700000001", "[::ffff:7f00:1]", "127.1:443"},
		"10.0.0.5:5000":  {"10.0.0.5:5000", "10.5:5000", "012.0x5:5000", "167772165:05000"},
		"0.0.0.0":        {"0", "0x", "0.0"},
		"[fd00::1]:5000": {"[fd00:0::1]:5000", "[FD00::1]:5000"},
		// What nobody takes for an address stays a name.
		"256.1.1.1":     {"256.1.1.1"},
		"1.2.3.4.5":     {"1.2.3.4.5"},
		"1.2.65536":     {"1.2.65536"},
		"08.1":          {"08.1"},
		"4294967296":    {"4294967296"},
		"0xg":           {"0xg"},
		"a.5":           {"a.5"},
		"1..2":          {"1..2"},
		"example.com:1": {"EXAMPLE.com:1"},
	} {
		for _, spelling := range spellings {
			if got := image.ComparableHost(spelling, false); got != canonical {
				t.Errorf("%s is compared as %s, want %s", spelling, got, canonical)
			}
		}
	}
}

func TestPlainHosts(t *testing.T) {
	for host, want := range map[string]bool{
		"registry.example.com": true, "localhost:5000": true, "10.0.0.5:5000": true, "[fd00::1]:5000": true, "5.example.com": true, "a5": true, "0x7f.a": true,
		"127.1": false, "0177.0.0.1": false, "0x7f": false, "0X": false, "5:5000": false, "a.example.5": false, "[::ffff:a00:1]": false,
	} {
		if got := image.IsPlainHost(host); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}
