package cosign

import (
	"encoding/json"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// The types of what is stored.
const (
	TypeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	TypeSignature     = "application/vnd.dev.cosign.artifact.sig.v1+json"
	TypeBundle        = "application/vnd.dev.sigstore.bundle.v0.3+json"
)

// Artifact is something to push: a manifest, and the blobs that it names.
type Artifact struct {
	// Tag is where it goes; empty for a referrer, which goes where its digest is.
	Tag string
	// Manifest has the media type MediaType.
	Manifest  []byte
	MediaType string
	Blobs     []Blob
}

// Blob is content that a manifest names by its digest.
type Blob struct {
	MediaType string
	Content   []byte
}

// Descriptor names the blob.
func (b Blob) Descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: b.MediaType, Digest: digest.FromBytes(b.Content), Size: int64(len(b.Content))}
}

// Digest is that of the manifest.
func (a *Artifact) Digest() image.Digest { return image.DigestOf(a.Manifest) }

// Tag is where the signatures of an image are: sha256-….sig.
func Tag(subject image.Digest) string {
	algorithm, hex := split(subject)
	return algorithm + "-" + hex + ".sig"
}

func split(digest image.Digest) (algorithm, hex string) {
	algorithm, hex, _ = strings.Cut(digest.String(), ":")
	return algorithm, hex
}

// Tagged is the manifest of signatures for the tag of an image.
func Tagged(subject image.Digest, signatures ...*Signature) *Artifact {
	artifact := signed(ocispec.Manifest{
		Config: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig},
	}, []byte(`{"architecture":"","os":"","rootfs":{"type":"layers","diff_ids":[]}}`), signatures)
	artifact.Tag = Tag(subject)
	return artifact
}

// Referring is the manifest of signatures that refers to the image: subject
// describes the image's manifest.
func Referring(subject ocispec.Descriptor, signatures ...*Signature) *Artifact {
	return signed(ocispec.Manifest{
		ArtifactType: TypeSignature,
		Config:       ocispec.DescriptorEmptyJSON,
		Subject:      &subject,
	}, ocispec.DescriptorEmptyJSON.Data, signatures)
}

func signed(manifest ocispec.Manifest, config []byte, signatures []*Signature) *Artifact {
	blobs := []Blob{{MediaType: manifest.Config.MediaType, Content: config}}
	for _, signature := range signatures {
		blobs = append(blobs, Blob{MediaType: TypeSimpleSigning, Content: signature.Payload})
	}
	manifest.Config = blobs[0].Descriptor()
	for i, signature := range signatures {
		layer := blobs[i+1].Descriptor()
		layer.Annotations = signature.Annotations
		manifest.Layers = append(manifest.Layers, layer)
	}
	return stored(manifest, blobs)
}

// stored writes a manifest.
func stored(manifest ocispec.Manifest, blobs []Blob) *Artifact {
	manifest.Versioned = specs.Versioned{SchemaVersion: 2}
	manifest.MediaType = ocispec.MediaTypeImageManifest
	written, err := json.Marshal(manifest)
	if err != nil {
		panic(err) // descriptors have an encoding
	}
	return &Artifact{Manifest: written, MediaType: manifest.MediaType, Blobs: blobs}
}
