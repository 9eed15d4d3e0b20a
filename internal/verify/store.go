package verify

import (
	"context"
	"iter"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// Store is a place in which signatures are found: the registry of the image, or
// an OCI layout on disk.
type Store interface {
	// Name is the store's name in the Executor.
	Name() string
	// open begins to read for one verification.
	open(subject image.Pinned) (source, error)
}

// source is what a store holds about one image. What it returns was proven
// against the digest it was asked by; every error is a *registry.Error.
type source interface {
	Manifest(ctx context.Context, digest image.Digest) (registry.Manifest, error)
	Tagged(ctx context.Context, tag string) (registry.Manifest, error)
	Referrers(ctx context.Context, subject image.Digest, artifactType string) iter.Seq2[[]ocispec.Descriptor, error]
	Blob(ctx context.Context, descriptor ocispec.Descriptor, limit int64) ([]byte, error)
	Close()
}

// RegistryStore finds signatures in the repository that the image is in.
func RegistryStore(name string, client *registry.Client, access registry.Access, options registry.SessionOptions) Store {
	return registryStore{name, client, access, options}
}

type registryStore struct {
	name    string
	client  *registry.Client
	access  registry.Access
	options registry.SessionOptions
}

func (s registryStore) Name() string { return s.name }

func (s registryStore) open(subject image.Pinned) (source, error) {
	session, err := s.client.Session(subject, s.access, s.options)
	if err != nil {
		return nil, err
	}
	return session, nil
}

// LayoutStore finds signatures in an OCI layout, whatever repository the image is
// in.
func LayoutStore(name string, layout *registry.Layout, options registry.SessionOptions) Store {
	return layoutStore{name, layout, options}
}

type layoutStore struct {
	name    string
	layout  *registry.Layout
	options registry.SessionOptions
}

func (s layoutStore) Name() string { return s.name }

func (s layoutStore) open(subject image.Pinned) (source, error) {
	return s.layout.Session(subject, s.options), nil
}

// UnusableStore is a place that cannot be asked, and why: what is in it is not known.
func UnusableStore(name string, err error) Store { return unusableStore{name, err} }

type unusableStore struct {
	name string
	err  error
}

func (s unusableStore) Name() string { return s.name }

func (s unusableStore) open(image.Pinned) (source, error) { return nil, s.err }
