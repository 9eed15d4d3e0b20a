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
	"github.com/gatehouse-dev/gatehouse/internal/verify/strictjson"
)

// errNoArtifact says that a manifest is no image manifest: an index, or a format
// of its own. It holds no signature that Gatehouse reads.
var errNoArtifact = errors.New("not an image manifest")

// errContradicted says that a registry calls a manifest something else than the
// manifest, which its digest proves, says it is.
var errContradicted = errors.New("another media type is stated for a manifest than it has")

// readArtifact decodes a manifest. An error other than errNoArtifact and
// errContradicted says that it reads as none, or in two ways.
func readArtifact(store string, tagged bool, got registry.Manifest, blobs *blobs) (*Artifact, error) {
	a := &Artifact{Store: store, Tagged: tagged, Digest: got.Digest, Blob: blobs.get}
	if !readPlain(got, &a.Manifest) {
		if err := readManifest(got, &a.Manifest); err != nil {
			return nil, err
		}
	}
	a.ArtifactType = a.Manifest.ArtifactType
	if a.ArtifactType == "" {
		a.ArtifactType = a.Manifest.Config.MediaType
	}
	return a, nil
}

// readPlain decodes in one go what is the manifest of an image and nothing else. If
// it is false, readManifest says why, or decides otherwise.
func readPlain(got registry.Manifest, into *ocispec.Manifest) bool {
	var read struct {
		ocispec.Manifest
		Manifests json.RawMessage `json:"manifests"`
	}
	if !strictjson.Plain(got.Body, maxDepth) || kjson.UnmarshalCaseSensitivePreserveInts(got.Body, &read) != nil {
		return false
	}
	stated := statedType(got, read.MediaType)
	imageType := stated == "" || stated == ocispec.MediaTypeImageManifest || stated == dockerManifest
	if !imageType || read.Manifests != nil || read.SchemaVersion != 2 || (read.MediaType != "" && read.MediaType != stated) {
		return false
	}
	*into = read.Manifest
	return true
}

// statedType is what the registry says that a manifest is, or, where that means
// nothing, the manifest itself.
func statedType(got registry.Manifest, own string) string {
	switch got.MediaType {
	case "", "application/octet-stream", "text/plain":
		return own
	}
	return got.MediaType
}

// readManifest decodes a manifest step by step, to tell what is wrong with it.
func readManifest(got registry.Manifest, into *ocispec.Manifest) error {
	var shape struct {
		MediaType string          `json:"mediaType"`
		Manifests json.RawMessage `json:"manifests"`
		Config    json.RawMessage `json:"config"`
	}
	if strict, err := kjson.UnmarshalStrict(got.Body, &shape, kjson.DisallowDuplicateFields); err != nil {
		return errors.New("its manifest is not JSON")
	} else if len(strict) > 0 {
		return errors.New("its manifest has a key twice")
	}
	stated := statedType(got, shape.MediaType)
	imageType := stated == "" || stated == ocispec.MediaTypeImageManifest || stated == dockerManifest
	switch {
	case shape.MediaType != "" && shape.MediaType != stated:
		return errContradicted
	case shape.Manifests != nil:
		return errNoArtifact
	case !imageType && shape.MediaType == "" && shape.Config != nil:
		return errContradicted // it is an image's by its content
	case !imageType:
		return errNoArtifact
	}
	strict, err := kjson.UnmarshalStrict(got.Body, into, kjson.DisallowDuplicateFields)
	switch {
	case err != nil:
		return errors.New("its manifest is not that of an image")
	case len(strict) > 0:
		return errors.New("its manifest has a key twice")
	case into.SchemaVersion != 2:
		return errors.New("its manifest has not schema version 2")
	}
	return nil
}

// maxDepth bounds how deep a manifest that is plain is nested.
const maxDepth = 32

const dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"

// blobs fetches layers of the artifacts of one store, each once.
type blobs struct {
	from source

	mu   sync.Mutex
	kept map[blobKey]*fetched
}

type blobKey struct {
	digest string
	size   int64
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
	key := blobKey{string(layer.Digest), layer.Size}
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

// reasonOf tells what an error of a store means for a verification. What an honest
// store could not have turned into a signature either is decided: content that is not
// there, or that whoever described it described wrongly. Everything else is not known,
// content of another digest too: it says that the store lies or is damaged, and
// nothing of what was signed.
func reasonOf(err error) (Reason, bool) {
	var e *registry.Error
	if !errors.As(err, &e) {
		return ReasonUnreachable, true
	}
	switch e.Kind {
	case registry.NotFound, registry.BadDescriptor:
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
