package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
)

// example is one manifest that a person may copy.
type example struct {
	where  string
	object *unstructured.Unstructured
}

// fence is a block of YAML, also one that is indented because it is part of a step.
var fence = regexp.MustCompile("(?ms)^( *)```ya?ml\n(.*?)^ *```")

// examples are the manifests of README.md, docs/ and config/samples. A block without a kind is a part of one, and is
// left to the reader.
func examples(root string) ([]example, error) {
	var found []example
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for n, block := range fence.FindAllSubmatch(text, -1) {
			objects, err := manifests(bytes.ReplaceAll(append([]byte("\n"), block[2]...), append([]byte("\n"), block[1]...), []byte("\n")))
			if err != nil {
				return nil, fmt.Errorf("%s, example %d: %w", page, n+1, err)
			}
			for _, object := range objects {
				found = append(found, example{fmt.Sprintf("%s example %d %s %s", filepath.Base(page), n+1, object.GetKind(), object.GetName()), object})
			}
		}
	}
	samples, err := filepath.Glob(filepath.Join(root, "config", "samples", "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, sample := range samples {
		text, err := os.ReadFile(sample)
		if err != nil {
			return nil, err
		}
		objects, err := manifests(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sample, err)
		}
		for _, object := range objects {
			found = append(found, example{filepath.Base(sample), object})
		}
	}
	return found, nil
}

func manifests(text []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case strings.HasPrefix(object.GetAPIVersion(), "config.ratify."): // what `gatehouse import` reads, not what a cluster has
		case object.GetKind() != "" && object.GetAPIVersion() != "" && object.GetKind() != "Kustomization" && !strings.Contains(string(text), "…"):
			objects = append(objects, object)
		}
	}
}

// raw asks the API server for a path, in a form.
func raw(t *testing.T, path, accept string) ([]byte, error) {
	t.Helper()
	transport, err := rest.HTTPClientFor(product.Config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, product.Config.Host+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := transport.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, text)
	}
	return text, err
}
