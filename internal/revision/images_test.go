package revision_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
)

// Whatever a pod of a revision runs or mounts is an image of it.
func TestImagesOfARevision(t *testing.T) {
	at := func(repository string, n int) string {
		return fmt.Sprintf("registry.example/%s@sha256:%064x", repository, n)
	}
	pinned, err := image.ParsePinned(at("gateway", 1))
	if err != nil {
		t.Fatal(err)
	}
	r, err := revision.New("stable", pinned, "", v1alpha1.GatewayProfileSpec{Template: runtime.RawExtension{Raw: []byte(`{"spec":{
		"initContainers":[{"name":"setup","image":"` + at("setup", 2) + `"},{"name":"again","image":"` + at("gateway", 1) + `"}],
		"containers":[{"name":"proxy","image":"` + at("proxy", 3) + `"},{"name":"gateway"},{"name":"log","image":"` + at("proxy", 3) + `"}],
		"volumes":[{"name":"models","image":{"reference":"` + at("models", 4) + `"}},{"name":"tmp","emptyDir":{}}]}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	images, err := r.Images()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range images {
		got = append(got, i.Where+" "+i.Image.String())
	}
	want := []string{"container gateway " + at("gateway", 1), "init container setup " + at("setup", 2), "container proxy " + at("proxy", 3), "volume models " + at("models", 4)}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
