package image_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

const (
	sha256a = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	sha256b = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// tableRow is one line of testdata/image-references.tsv.
type tableRow struct {
	line     string
	input    string
	ok       bool
	expected string // the canonical form, or the kind of fault
}

func table(tb testing.TB) []tableRow {
	tb.Helper()
	file, err := os.Open("testdata/image-references.tsv")
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	var rows []tableRow
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3 || (fields[1] != "ok" && fields[1] != "invalid") {
			tb.Fatalf("a row has three fields and a verdict: %q", line)
		}
		row := tableRow{line: line, ok: fields[1] == "ok", expected: fields[2]}
		if err := json.Unmarshal([]byte(fields[0]), &row.input); err != nil {
			tb.Fatalf("%q: %v", line, err)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	if len(rows) < 80 {
		tb.Fatalf("the table has %d rows, it had more", len(rows))
	}
	return rows
}

func TestTheTable(t *testing.T) {
	for _, row := range table(t) {
		ref, err := image.Parse(row.input)
		if row.ok {
			if err != nil {
				t.Errorf("%s: %v", row.line, err)
			} else if ref.String() != row.expected {
				t.Errorf("%s: got %s", row.line, ref)
			}
			continue
		}
		var fault *image.ParseError
		switch {
		case err == nil:
			t.Errorf("%s: accepted as %s", row.line, ref)
		case !errors.As(err, &fault):
			t.Errorf("%s: %T is no ParseError", row.line, err)
		case string(fault.Kind) != row.expected:
			t.Errorf("%s: kind %q (%v)", row.line, fault.Kind, err)
		case !ref.IsZero():
			t.Errorf("%s: refused, yet a reference came back", row.line)
		}
	}
}

func TestTheErrorNamesThePartAndShowsTheBytes(t *testing.T) {
	for input, expected := range map[string]string{
		"":                                     `image reference "": empty; write host/repository:tag or host/repository@digest`,
		" ":                                    `image reference " ": nothing but white space; write host/repository:tag or host/repository@digest`,
		"gw":                                   `image reference "gw": neither a tag nor a digest is stated; add one, for example :1.4.2`,
		"gw:1\n":                               `image tag "\n": white space at the end; remove it`,
		" gw:1":                                `image repository " ": white space at the beginning; remove it`,
		"gw\u200b:1":                           `image repository "\u200b": not an ASCII character; replace it; it may look like another one, or like nothing`,
		"\u212aube:1":                          `image repository "\u212a": not an ASCII character at the beginning; replace it; it may look like another one, or like nothing`,
		"gw:1\x00":                             `image tag "\x00": a control character at the end; remove it`,
		"gw:1\xff":                             `image tag "\xff": not valid UTF-8 at the end; remove it`,
		"r\u00e9g.io/gw:1":                     `image host "\u00e9": not an ASCII character; replace it; it may look like another one, or like nothing`,
		"https://reg.io/gw:1":                  `image scheme "https://": a reference has no scheme; leave it out`,
		"reg.io//gw:1":                         `image repository "/gw": a part between slashes is empty; each part between slashes has lower-case letters and digits, joined by one dot, one or two underscores, or dashes`,
		"reg.io/NVIDIA/gw:1":                   `image repository "NVIDIA": upper case "N"; a repository is written in lower case`,
		"reg.io/a/_b:1":                        `image repository "_b": not the name of a repository; each part between slashes has lower-case letters and digits, joined by one dot, one or two underscores, or dashes`,
		"gw:":                                  `image tag "": empty; write the tag after the colon`,
		"gw:-bad":                              `image tag "-bad": starts with "-"; a tag has letters, digits, underscores, dots and dashes, starts with no dot or dash, and has at most 128 of them`,
		"reg.io/gw:1:2":                        `image tag "1:2": a second colon; write one tag`,
		"host:65536/gw:1":                      `image port "65536": not between 1 and 65535; write the port of the registry, or leave it out`,
		"host:-1/gw:1":                         `image port "-1": not a number; write the port of the registry, or leave it out with its colon`,
		"a..b/c:1":                             `image host "a..b": not a host name; write the DNS name or address of the registry, with its port if it has one`,
		"[fe80::1%25e]:5/gw:1":                 `image host "[fe80::1%25e]": an address with a zone; write the address without its zone`,
		"[::::]/gw:1":                          `image host "[::::]": not an IPv6 address; write the address in brackets, for example [fd00::1]:5000`,
		"gw@":                                  `image digest "": empty; write the digest after the @`,
		"gw@sha256:abcd":                       `image digest "sha256:abcd": 4 digits instead of 64; write the digest as the registry prints it: sha256: and 64 lower-case hexadecimal digits`,
		"gw@md5:" + strings.Repeat("a", 32):    `image digest "md5": not an algorithm that is trusted; use a sha256, sha384 or sha512 digest`,
		"gw@sha256:" + strings.Repeat("A", 64): `image digest "sha256:` + strings.Repeat("A", 57) + `"… (71 bytes): upper-case digits; write the digest as the registry prints it: sha256: and 64 lower-case hexadecimal digits`,
		"gw@" + sha256a + ":1":                 `image digest "sha256:` + strings.Repeat("a", 57) + `"… (73 bytes): something stands after the digest; write the tag before the digest: repository:tag@digest`,
		sha256a:                                `image reference "sha256:` + strings.Repeat("a", 57) + `"… (71 bytes): a digest without the repository it is in; write host/repository@sha256:aaaaaaaaaaaa…`,
		strings.Repeat("a", 64) + ".io/" + "x" + ":+": `image tag "+": holds "+"; a tag has letters, digits, underscores, dots and dashes, starts with no dot or dash, and has at most 128 of them`,
	} {
		_, err := image.Parse(input)
		if err == nil {
			t.Errorf("%q: accepted", input)
		} else if err.Error() != expected {
			t.Errorf("%q:\n got %s\nwant %s", input, err, expected)
		}
	}
}

func TestAnErrorRepeatsNoPassword(t *testing.T) {
	for _, input := range []string{
		"robot:hunter2@reg.io/gw:1",
		"https://robot:hunter2@reg.io/gw:1",
		"robot:hunter2@reg.io:5000/gw@" + sha256a,
		"robot:hunter2 @reg.io/gw:1",
	} {
		_, err := image.Parse(input)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", input, err)
		}
	}
}

func TestAnErrorIsBounded(t *testing.T) {
	for _, piece := range []string{"a", "A", "/", ":", "@", "[", "é", "\x00", "a/", "a:1/"} {
		input := strings.Repeat(piece, 1<<20)
		if _, err := image.Parse(input); err == nil || len(err.Error()) > 700 {
			t.Errorf("a megabyte of %q: %.200v", piece, err)
		}
	}
}

func TestLongestReferenceThatTheGrammarAllows(t *testing.T) {
	input := strings.Repeat("h.", 126) + "h:65535/" + strings.Repeat("a", 255) + ":" + strings.Repeat("t", 128) +
		"@sha512:" + strings.Repeat("b", 128)
	if _, err := image.Parse(input); err != nil {
		t.Fatal(err)
	}
}

func TestParts(t *testing.T) {
	ref := parse(t, "reg.example.com:5000/team/gw:1.2@"+sha256a)
	for what, pair := range map[string][2]string{
		"registry":   {ref.Registry(), "reg.example.com:5000"},
		"path":       {ref.Path(), "team/gw"},
		"repository": {ref.Repository(), "reg.example.com:5000/team/gw"},
		"tag":        {ref.Tag(), "1.2"},
		"digest":     {ref.Digest().String(), sha256a},
		"short":      {ref.Digest().Short(), "sha256:aaaaaaaaaaaa"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %q, want %q", what, pair[0], pair[1])
		}
	}
	if underscored := parse(t, "my_host.io/a/b:1"); underscored.Registry() != "my_host.io" || underscored.Path() != "a/b" {
		t.Errorf("a host with an underscore: %q and %q", underscored.Registry(), underscored.Path())
	}
}

func TestWorkloadsRunTheDigestWithoutTheTag(t *testing.T) {
	digest := parseDigest(t, sha256b)
	one := parse(t, "nginx:1.27").WithDigest(digest)
	other := parse(t, "nginx:stable@"+sha256a).WithDigest(digest)
	if one.String() != "docker.io/library/nginx@"+sha256b {
		t.Errorf("pinned: %s", one)
	}
	if one != other {
		t.Error("another tag of the same digest is the same image")
	}
	if one == parse(t, "mirror.io/library/nginx:1.27").WithDigest(digest) {
		t.Error("another repository with the same digest is another image")
	}
	back, err := image.ParsePinned(one.String())
	if err != nil || back != one {
		t.Errorf("read back: %v, %v", back, err)
	}
	if one.Reference().String() != one.String() || one.Digest() != digest || one.Repository() != "docker.io/library/nginx" {
		t.Error("a pinned image is a reference with a digest alone")
	}
	for _, tagged := range []string{"nginx:1", "nginx:1@" + sha256a, "nginx"} {
		if _, err := image.ParsePinned(tagged); err == nil {
			t.Errorf("%s is not pinned", tagged)
		}
	}
}

func TestTheZeroValuesNameNothing(t *testing.T) {
	var ref image.Reference
	var pinned image.Pinned
	var digest image.Digest
	if !ref.IsZero() || !pinned.IsZero() || !digest.IsZero() {
		t.Error("a zero value says so")
	}
	if s := ref.String() + ref.Key() + ref.RepositoryKey() + ref.Repository() + pinned.String() + pinned.Repository() + digest.String() + digest.Short(); s != "" {
		t.Errorf("a zero value has no text: %q", s)
	}
	if !ref.WithDigest(parseDigest(t, sha256a)).IsZero() || !parse(t, "gw:1").WithDigest(digest).IsZero() {
		t.Error("nothing pinned is nothing")
	}
	if digest.Matches(nil) {
		t.Error("nothing hashes to no digest")
	}
}

func TestComparingFoldsTheSpellingsOfAHost(t *testing.T) {
	for input, expected := range map[string]string{
		"GHCR.io/a/b:1":                  "ghcr.io/a/b:1",
		"ghcr.io:443/a/b:1":              "ghcr.io/a/b:1",
		"ghcr.io:0443/a/b:1":             "ghcr.io/a/b:1",
		"ghcr.io:80/a/b:1":               "ghcr.io:80/a/b:1",
		"nginx:1":                        "docker.io/library/nginx:1",
		"index.docker.io/nginx:1":        "docker.io/library/nginx:1",
		"registry-1.docker.io/a/b:1":     "docker.io/a/b:1",
		"registry-1.docker.io:443/a/b:1": "docker.io/a/b:1",
		"[FD00:0::1]:5000/gw:V1":         "[fd00::1]:5000/gw:V1",
		"Localhost:5000/gw@" + sha256a:   "localhost:5000/gw@" + sha256a,
	} {
		ref := parse(t, input)
		if got := ref.Key(); got != expected {
			t.Errorf("%s: key %s, want %s", input, got, expected)
		}
		if !strings.HasPrefix(expected, ref.RepositoryKey()) || strings.HasSuffix(ref.RepositoryKey(), "1") {
			t.Errorf("%s: repository key %s", input, ref.RepositoryKey())
		}
	}
	if got := image.ComparableHost("Reg.io:80", true); got != "reg.io" {
		t.Errorf("the default port of plain HTTP stays: %s", got)
	}
	if got := image.ComparableHost("reg.io:443", true); got != "reg.io:443" {
		t.Errorf("443 is no default port of plain HTTP: %s", got)
	}
}

func TestDigest(t *testing.T) {
	content := []byte("a manifest")
	if d := image.DigestOf(content); !d.Matches(content) || d.Matches([]byte("another")) {
		t.Error("a digest matches its content and no other")
	}
	for _, bad := range []string{"", "sha256:", "sha256:abcd", "md5:" + strings.Repeat("a", 32), strings.ToUpper(sha256a), sha256a + " ", "aaaa"} {
		if _, err := image.ParseDigest(bad); err == nil {
			t.Errorf("%q is no digest", bad)
		}
	}
}

func parse(tb testing.TB, s string) image.Reference {
	tb.Helper()
	ref, err := image.Parse(s)
	if err != nil {
		tb.Fatal(err)
	}
	return ref
}

func parseDigest(tb testing.TB, s string) image.Digest {
	tb.Helper()
	d, err := image.ParseDigest(s)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
