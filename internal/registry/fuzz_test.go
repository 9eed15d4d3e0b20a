package registry

import (
	"net/url"
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Whatever a registry sends as a list is descriptors, or a fault with words.
func FuzzReadIndex(f *testing.F) {
	for _, seed := range []string{
		`{"schemaVersion":2,"manifests":[]}`, `{"schemaVersion":2,"manifests":null}`, `{}`, `[]`, `null`, ``,
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"digest":"sha256:aa","size":-1}]}`,
		`{"schemaVersion":2,"manifests":[{"digest":{}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		descriptors, fault := readIndex(body)
		if fault != "" && descriptors != nil {
			t.Errorf("%q: %d descriptors beside the fault %q", body, len(descriptors), fault)
		}
	})
}

func TestALinkToAnotherRegistryIsRefused(t *testing.T) {
	ref, err := image.Parse("registry.example.com/team/gw:1.0")
	if err != nil {
		t.Fatal(err)
	}
	a := &attempt{ref: ref}
	const path = "/v2/team/gw/referrers/sha256:aa"
	for link, want := range map[string]string{
		"https://elsewhere.example.com" + path + "?n=2": "",
		path + "?n=2": "https://registry.example.com" + path + "?n=2",
		"http://registry.example.com" + path + "?n=2": "https://registry.example.com" + path + "?n=2", // behind what ends TLS
	} {
		next, failure := a.following("https://registry.example.com"+path, []string{"<" + link + `>; rel="next"`})
		if next != want || (failure == nil) != (want != "") {
			t.Errorf("%s: got %q %v, want %q", link, next, failure, want)
		}
	}
}

// Wherever a Link header leads, the next page is of the same list at the same
// registry, and not the same page.
func FuzzFollowing(f *testing.F) {
	for _, seed := range []string{
		`</v2/team/gw/referrers/sha256:aa?n=2>; rel="next"`, `<https://elsewhere/>; rel=next`, `<?x>; rel="prev", <?y>; rel="next"`,
		`<//elsewhere/v2/team/gw/referrers/sha256:aa?x>; rel="next"`, `<`, `<>`, `<?a>;rel=next`, `<http://user@registry.example.com/v2/team/gw/referrers/sha256:aa?x>;rel=next`,
	} {
		f.Add(seed)
	}
	const from = "https://registry.example.com/v2/team/gw/referrers/sha256:aa"
	ref, err := image.Parse("registry.example.com/team/gw:1.0")
	if err != nil {
		f.Fatal(err)
	}
	a := &attempt{ref: ref}
	f.Fuzz(func(t *testing.T, header string) {
		next, failure := a.following(from, []string{header})
		if failure != nil || next == "" {
			return
		}
		u, err := url.Parse(next)
		if err != nil {
			t.Fatalf("%q: %v", header, err)
		}
		if u.Scheme != "https" || u.Host != "registry.example.com" || u.Path != "/v2/team/gw/referrers/sha256:aa" || u.User != nil || next == from {
			t.Errorf("%q leads to %s", header, next)
		}
	})
}
