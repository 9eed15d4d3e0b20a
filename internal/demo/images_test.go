package demo

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Where nodes really run pods, images are made from the base's image for the nodes' architecture, each with a digest of
// its own, and the bad one differs from the good ones in the program that it names.
func TestImagesForNodesThatRunThem(t *testing.T) {
	registry, err := serveRegistry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = registry.close() })
	host, _, _ := strings.Cut(registry.repository, "/")
	base := host + "/pause:3"
	pushBase(t, base)

	s, err := useRegistry(t.Context(), Options{BaseImage: base, Registry: host + "/scratch", PlainHTTP: true}, "arm64")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	digests := map[string]bool{}
	for versionName, bad := range map[string]bool{"v1": false, "v2": false, badVersion: true} {
		v, err := s.push(t.Context(), versionName, bad)
		if err != nil {
			t.Fatal(err)
		}
		if want := host + "/scratch/gatehouse-demo:" + versionName; v.image != want {
			t.Errorf("%s was pushed as %s, want %s", versionName, v.image, want)
		}
		image := pull(t, v.image)
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if digest.String() != v.digest || digests[v.digest] {
			t.Errorf("%s is %s in the registry, said to be %s; digests so far: %v", versionName, digest, v.digest, digests)
		}
		digests[v.digest] = true
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != "arm64" {
			t.Errorf("%s is for %s, want arm64", versionName, config.Architecture)
		}
		if started := config.Config.Entrypoint[0] == "/pause"; started == bad {
			t.Errorf("%s (bad: %v) starts %v", versionName, bad, config.Config.Entrypoint)
		}
	}
}

// pushBase pushes an index of an image for each of two architectures.
func pushBase(t *testing.T, base string) {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := mutate.ConfigFile(mutate.MediaType(empty.Image, types.OCIManifestSchema1), &v1.ConfigFile{
			OS: "linux", Architecture: architecture, Config: v1.Config{Entrypoint: []string{"/pause"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	ref, err := name.ParseReference(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
}

func pull(t *testing.T, image string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	return pulled
}
