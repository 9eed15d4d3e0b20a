package registry

import (
	"encoding/json"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// FuzzManifestFault holds that what passes can be read in one way only.
func FuzzManifestFault(f *testing.F) {
	f.Add(ocispec.MediaTypeImageManifest, []byte(`{"schemaVersion":2,"config":{},"layers":[]}`))
	f.Add(ocispec.MediaTypeImageIndex+"; charset=utf-8", []byte(`{"schemaVersion":2,"mediaType":"`+ocispec.MediaTypeImageIndex+`","manifests":[]}`))
	f.Add("", []byte(`{"schemaVersion":2,"mediaType":"`+dockerManifest+`","config":null,"layers":[null]}`))
	f.Add(dockerList, []byte(`{"schemaVersion":2,"manifests":[{}],"layers":[]}`))
	f.Add("text/html;;", []byte(`[]`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		if manifestFault(contentType, body) != "" {
			return
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Fatalf("%q passes: %v", body, err)
		}
		if manifestFault(ocispec.MediaTypeImageManifest, body) == "" && manifestFault(ocispec.MediaTypeImageIndex, body) == "" {
			t.Fatalf("%q passes as an image and as an index", body)
		}
	})
}
