package registry

import (
	"encoding/json"
	"mime"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The media types of images and of indexes of images. Docker's are the older
// names of the same two things.
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"

	acceptManifests = ocispec.MediaTypeImageIndex + ", " + ocispec.MediaTypeImageManifest + ", " + dockerList + ", " + dockerManifest
)

// manifestFault says what is wrong with a manifest, or is empty. The type that
// the registry states, the one that the manifest states and the one that its
// content shows must be the same, so that nobody can read it another way.
func manifestFault(contentType string, body []byte) string {
	var manifest struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		Config        json.RawMessage   `json:"config"`
		Layers        []json.RawMessage `json:"layers"`
		Manifests     []json.RawMessage `json:"manifests"`
	}
	if err := json.Unmarshal(body, &manifest); err != nil {
		return "it is not the JSON of a manifest"
	}
	stated, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		stated = manifest.MediaType
	}
	if manifest.MediaType != "" && manifest.MediaType != stated {
		return "it states another media type than the registry does"
	}
	isImage := manifest.Config != nil || manifest.Layers != nil
	isIndex := manifest.Manifests != nil
	switch stated {
	case ocispec.MediaTypeImageManifest, dockerManifest:
		if !isImage || isIndex {
			return "its content is not that of an image"
		}
	case ocispec.MediaTypeImageIndex, dockerList:
		if !isIndex || isImage {
			return "its content is not that of an index"
		}
	default:
		return "its media type is neither that of an image nor that of an index"
	}
	if manifest.SchemaVersion != 2 {
		return "its schema version is not 2"
	}
	return ""
}
