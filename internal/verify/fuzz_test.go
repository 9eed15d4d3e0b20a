package verify

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// Whatever bytes a registry sends as a manifest: they are read in one way, which is
// also that of a decoder that is strict, or refused.
func FuzzReadArtifact(f *testing.F) {
	for _, seed := range []string{
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.cncf.notary.signature","config":{},"layers":[{"digest":"sha256:aa","size":-1}],"subject":{"digest":"sha256:bb"}}`,
		`{"schemaVersion":2,"layers":[],"layers":[]}`, `{"schemaVersion":2,"Layers":[],"layers":[]}`, `{"schemaVersion":2,"manifests":[]}`,
		`{"schemaVersion":2,"annotations":{"a":"1","a":"2"}}`, `{"mediaType":"x"}`, `[]`, `null`, `{`, ``,
	} {
		f.Add(ocispec.MediaTypeImageManifest, []byte(seed))
		f.Add("", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, mediaType string, body []byte) {
		a, err := readArtifact("registry", false, registry.Manifest{Digest: image.DigestOf(body), MediaType: mediaType, Body: body}, &blobs{})
		if err != nil {
			if a != nil {
				t.Errorf("%q: an artifact beside %v", body, err)
			}
			if !errors.Is(err, errNoArtifact) && !errors.Is(err, errContradicted) && !strings.HasPrefix(err.Error(), "its manifest ") {
				t.Errorf("%q: the text %q is not one of ours", body, err)
			}
			return
		}
		if a.Manifest.SchemaVersion != 2 || a.Digest.IsZero() {
			t.Errorf("%q: %+v", body, a)
		}
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(body, &keys); err != nil {
			t.Errorf("%q: read as a manifest, and is no object: %v", body, err)
		}
	})
}

// Whatever text a peer has a hand in: it becomes one line that is not too long.
func FuzzOneLine(f *testing.F) {
	f.Add("a\nb\x00\u2028", 8)
	f.Add(strings.Repeat("ü", 400), 256)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 8 || limit > 1<<12 {
			return
		}
		got := oneLine(text, limit)
		if len(got) > limit || strings.ContainsAny(got, "\n\r\x00\u2028\u2029") {
			t.Errorf("%q became %q", text, got)
		}
	})
}
