package demo

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// version is an image of the demo, pushed.
type version struct {
	name       string // v1
	image      string // as a person writes it: repository:tag
	digest     string
	descriptor ocispec.Descriptor
}

const (
	// unsignedVersion has no signatures, copiedVersion has those of v2.
	unsignedVersion = "v3"
	copiedVersion   = "v4"
	// trustVersion is under way when its signer is trusted no longer.
	trustVersion = "v6"
	lastVersion  = "v7"
	badVersion   = "v8"
	pushWithin   = 2 * time.Minute
)

// goodVersions are released one after the other; badVersion comes after them, is signed as well, and never becomes ready.
var goodVersions = []string{"v1", "v2", "v5", trustVersion, lastVersion}

// store is the registry that the images of the demo are pushed to.
type store struct {
	repository string // HOST[:PORT]/PATH
	plainHTTP  bool
	base       v1.Image
	server     *http.Server       // nil if the registry is not the demo's own
	forget     context.CancelFunc // ends what reads the base, which is read when it is needed
}

// serveRegistry runs a registry in this process, for nodes that only pretend to run images.
func serveRegistry() (*store, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	server := &http.Server{
		Handler:           registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)),
		ReadHeaderTimeout: requestWithin,
	}
	go func() { _ = server.Serve(l) }() // until close
	return &store{repository: l.Addr().String() + "/gateways/edge", plainHTTP: true, base: empty.Image, server: server}, nil
}

// useRegistry makes images from one that really runs on the nodes' architecture.
func useRegistry(ctx context.Context, o Options, architecture string) (*store, error) {
	ref, err := name.ParseReference(o.BaseImage)
	if err != nil {
		return nil, fmt.Errorf("--base-image: %w", err)
	}
	ctx, forget := context.WithTimeout(ctx, pushWithin)
	base, err := remote.Image(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
	if err != nil {
		forget()
		return nil, fmt.Errorf("--base-image %s for linux/%s: %w", o.BaseImage, architecture, err)
	}
	return &store{repository: o.Registry + "/gatehouse-demo", plainHTTP: o.PlainHTTP, base: base, forget: forget}, nil
}

func (s *store) close() error {
	if s.forget != nil {
		s.forget()
	}
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

// push makes and pushes an image. One that is bad names a program that does not exist: where nodes really run it, its
// containers do not start.
func (s *store) push(ctx context.Context, versionName string, bad bool) (version, error) {
	image := s.repository + ":" + versionName
	fail := func(err error) (version, error) { return version{}, fmt.Errorf("push %s: %w", image, err) }
	built, err := s.build(versionName, bad)
	if err != nil {
		return fail(err)
	}
	ref, err := name.ParseReference(image, s.names()...)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, pushWithin)
	defer cancel()
	if err := remote.Write(ref, built, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fail(err)
	}
	content, err := built.RawManifest()
	if err != nil {
		return fail(err)
	}
	mediaType, err := built.MediaType()
	if err != nil {
		return fail(err)
	}
	made := describe(mediaType, content)
	return version{name: versionName, image: image, digest: made.Digest.String(), descriptor: made}, nil
}

func (s *store) build(versionName string, bad bool) (v1.Image, error) {
	layer, err := s.versionLayer(versionName)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(s.base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	config.Config.Labels["org.opencontainers.image.version"] = versionName
	if bad {
		config.Config.Entrypoint = []string{"/there-is-no-such-program"}
	}
	return mutate.ConfigFile(image, config)
}

// versionLayer holds one file that says the version. Its media type goes with that of the base.
func (s *store) versionLayer(versionName string) (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	content := []byte(versionName + "\n")
	err := w.WriteHeader(&tar.Header{Name: "etc/edge-version", Mode: 0o444, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write(content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	manifest, err := s.base.MediaType()
	if err != nil {
		return nil, err
	}
	media := types.DockerUncompressedLayer
	if manifest == types.OCIManifestSchema1 {
		media = types.OCIUncompressedLayer
	}
	return static.NewLayer(buf.Bytes(), media), nil
}
