package image_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

func FuzzParse(f *testing.F) {
	for _, row := range table(f) {
		f.Add(row.input)
	}
	for _, seed := range []string{"my_host.io/a:1", "index.docker.io/x:1", "docker.io/a_b.c/x:1", "X:1/y:1", "[::]:1/a@" + sha256a, "\xff:1", "a@" + sha256a + "@"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		ref, err := image.Parse(input)
		if err != nil {
			checkRefusal(t, input, ref, err)
			return
		}
		canonical := ref.String()
		again, err := image.Parse(canonical)
		if err != nil {
			t.Fatalf("%q is accepted, its canonical form %q is not: %v", input, canonical, err)
		}
		if again != ref || again.String() != canonical {
			t.Fatalf("%q: the canonical form %q reads as %q", input, canonical, again)
		}
		if ref.Registry() == "" || ref.Path() == "" || (ref.Tag() == "" && ref.Digest().IsZero()) {
			t.Fatalf("%q: a part is missing of %q", input, canonical)
		}
		if ref.Path() != strings.ToLower(ref.Path()) {
			t.Fatalf("%q: upper case in a repository", input)
		}
		host := image.ComparableHost(ref.Registry(), false)
		if again := image.ComparableHost(host, false); again != host || host != strings.ToLower(host) {
			t.Fatalf("%q: the host compares as %q, and that as %q", input, host, again)
		}
		if !strings.HasPrefix(ref.Key(), host+"/"+ref.Path()) {
			t.Fatalf("%q: the key is %q", input, ref.Key())
		}
		if pinned := ref.WithDigest(image.DigestOf(nil)); pinned.Reference().Repository() != ref.Repository() {
			t.Fatalf("%q: pinned as %q", input, pinned)
		}
	})
}

func FuzzParseDigest(f *testing.F) {
	for _, seed := range []string{sha256a, "sha256:", "sha512:" + strings.Repeat("b", 128), "md5:" + strings.Repeat("a", 32), "a+b:c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		d, err := image.ParseDigest(input)
		if err == nil && d.String() != input {
			t.Fatalf("%q reads as %q", input, d)
		}
		if err == nil == d.IsZero() {
			t.Fatalf("%q: %q and %v", input, d, err)
		}
	})
}

// checkRefusal holds every error to what the type promises.
func checkRefusal(t *testing.T, input string, ref image.Reference, err error) {
	t.Helper()
	var fault *image.ParseError
	if !errors.As(err, &fault) {
		t.Fatalf("%q: %T is no ParseError", input, err)
	}
	if !ref.IsZero() {
		t.Fatalf("%q: refused, yet a reference came back", input)
	}
	if !strings.Contains(input, fault.Offending) {
		t.Fatalf("%q: the offending %q did not come from it", input, fault.Offending)
	}
	text := err.Error()
	if len(text) > 700 {
		t.Fatalf("%q: an error of %d bytes", input, len(text))
	}
	for _, r := range text {
		if (r < ' ' || r > '~') && r != '…' {
			t.Fatalf("%q: %q stands unescaped in %q", input, r, text)
		}
	}
	if _, again := image.Parse(input); again.Error() != text {
		t.Fatalf("%q: two texts: %q, %q", input, text, again)
	}
}
