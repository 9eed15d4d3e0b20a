package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	kjson "sigs.k8s.io/json"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// errNoArtifact says that a manifest is no image manifest: an index, or a format
// of its own. It holds no signature that Gatehouse reads.
var errNoArtifact = errors.New("not an image manifest")

// readArtifact decodes a manifest. An error other than errNoArtifact says that it
// reads as none, or in two ways.
func readArtifact(store string, tagged bool, got registry.Manifest, blobs *blobs) (*Artifact, error) {
	var shape struct {
		MediaType string          `json:"mediaType"`
		Manifests json.RawMessage `json:"manifests"`
	}
	if strict, err := kjson.UnmarshalStrict(got.Body, &shape, kjson.DisallowDuplicateFields); err != nil {
		return nil, errors.New("its manifest is not JSON")
	} else if len(strict) > 0 {
		return nil, errors.New("its manifest has a key twice")
	}
	stated := got.MediaType
	if stated == "" || stated == "application/octet-stream" || stated == "text/plain" {
		stated = shape.MediaType
	}
	if shape.MediaType != "" && shape.MediaType != stated {
		return nil, errors.New("its manifest states another media type than the registry does")
	}
	if shape.Manifests != nil || (stated != "" && stated != ocispec.MediaTypeImageManifest && stated != dockerManifest) {
		return nil, errNoArtifact
	}
	a := &Artifact{Store: store, Tagged: tagged, Digest: got.Digest, Blob: blobs.get}
	strict, err := kjson.UnmarshalStrict(got.Body, &a.Manifest, kjson.DisallowDuplicateFields)
	switch {
	case err != nil:
		return nil, errors.New("its manifest is not that of an image")
	case len(strict) > 0:
		return nil, errors.New("its manifest has a key twice")
	case a.Manifest.SchemaVersion != 2:
		return nil, errors.New("its manifest has not schema version 2")
	}
	a.ArtifactType = a.Manifest.ArtifactType
	if a.ArtifactType == "" {
		a.ArtifactType = a.Manifest.Config.MediaType
	}
	return a, nil
}

const dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"

// blobs fetches layers of the artifacts of one store, each once.
type blobs struct {
	from source

	mu   sync.Mutex
	kept map[string]*fetched
}

// fetched is a blob that is being fetched, or was.
type fetched struct {
	done    chan struct{}
	content []byte
	err     error
}

// get is Artifact.Blob.
func (b *blobs) get(ctx context.Context, layer ocispec.Descriptor, limit int64) ([]byte, error) {
	if layer.Size > limit {
		return nil, &UndecidedError{ReasonTooLarge, fmt.Errorf("a blob of %d bytes is larger than the %d that are read", layer.Size, limit)}
	}
	key := fmt.Sprintf("%s %d", layer.Digest, layer.Size)
	b.mu.Lock()
	f, ok := b.kept[key]
	if !ok {
		f = &fetched{done: make(chan struct{})}
		b.kept[key] = f
	}
	b.mu.Unlock()
	if !ok {
		f.content, f.err = b.from.Blob(ctx, layer, limit)
		close(f.done)
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, &UndecidedError{ReasonUnreachable, errors.New("the verification was given up")}
	}
	if f.err != nil {
		return nil, explained(f.err)
	}
	return f.content, nil
}

// explained makes the error of a store one that a verifier understands: an
// *UndecidedError, or that the content is at fault.
func explained(err error) error {
	if reason, undecided := reasonOf(err); undecided {
		return &UndecidedError{reason, err}
	}
	return err
}

// reasonOf tells what an error of a store means for a verification. Content that
// is not there, or is not what its descriptor says, is decided: it is no
// signature. Everything else is not known.
func reasonOf(err error) (Reason, bool) {
	var e *registry.Error
	if !errors.As(err, &e) {
		return ReasonUnreachable, true
	}
	switch e.Kind {
	case registry.NotFound, registry.Mismatch:
		return ReasonMalformed, false
	case registry.TooLarge:
		return ReasonTooLarge, true
	}
	return ReasonUnreachable, true
}

// signatureTag is the tag under which cosign puts the signatures of an image;
// empty if there can be none.
func signatureTag(subject image.Digest) string {
	tag := strings.Replace(subject.String(), ":", "-", 1) + ".sig"
	if len(tag) > maxTag {
		return ""
	}
	return tag
}

const maxTag = 128 // of the distribution grammar
