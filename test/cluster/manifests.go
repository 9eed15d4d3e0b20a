package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// applyTimeout bounds one call of Apply; the API server serves a new kind
// within a second or two.
const applyTimeout = 2 * time.Minute

// Apply installs YAML files, and directories of them (not the ones below), by
// server-side apply, and returns when new kinds are served. Relative paths
// start at the root of the source tree. Definitions come first and namespaces
// second, whatever the order of the files.
func (c *Cluster) Apply(ctx context.Context, paths ...string) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		files, err := manifestFiles(path)
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			found, err := decode(text)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			objects = append(objects, found...)
		}
	}
	return c.applyAll(ctx, objects)
}

// ApplyText installs YAML from a string, as Apply does.
func (c *Cluster) ApplyText(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	objects, err := decode([]byte(text))
	if err != nil {
		return err
	}
	return c.applyAll(ctx, objects)
}

func (c *Cluster) applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	rank := func(o *unstructured.Unstructured) int {
		switch o.GetKind() {
		case "CustomResourceDefinition":
			return 0
		case "Namespace":
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	var definitions []*unstructured.Unstructured
	for _, o := range objects {
		if rank(o) > 0 && len(definitions) > 0 {
			if err := c.established(ctx, definitions); err != nil {
				return err
			}
			definitions = nil
		}
		if err := c.apply(ctx, o); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
		}
		if rank(o) == 0 {
			definitions = append(definitions, o)
		}
	}
	return c.established(ctx, definitions)
}

// apply repeats while the kind is not served yet.
func (c *Cluster) apply(ctx context.Context, o *unstructured.Unstructured) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		// Apply writes the answer into its argument, which must not be sent again.
		last = c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner(UserAgent), client.ForceOwnership)
		if meta.IsNoMatchError(last) || (apierrors.IsNotFound(last) && !namesNamespace(last)) {
			return false, nil
		}
		return true, last
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// namesNamespace tells a namespace that is missing, for which there is no use
// in waiting, from a kind that is.
func namesNamespace(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return status.Status().Details.Kind == "namespaces"
}

func (c *Cluster) established(ctx context.Context, definitions []*unstructured.Unstructured) error {
	for _, d := range definitions {
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			live := d.DeepCopy()
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(d), live); err != nil {
				return false, err
			}
			// A definition that nobody has looked at yet has no conditions, or null.
			status, _, _ := unstructured.NestedMap(live.Object, "status")
			conditions, _ := status["conditions"].([]any)
			return slices.ContainsFunc(conditions, func(c any) bool {
				condition, _ := c.(map[string]any)
				return condition["type"] == "Established" && condition["status"] == "True"
			}), nil
		})
		if err != nil {
			return fmt.Errorf("CustomResourceDefinition %s is not established: %w", d.GetName(), err)
		}
	}
	return nil
}

func manifestFiles(path string) ([]string, error) {
	if !filepath.IsAbs(path) {
		root, err := Root()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(root, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || !strings.HasSuffix(name, ".yaml") || name == "kustomization.yaml" {
			continue
		}
		files = append(files, filepath.Join(path, name))
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no .yaml file", path)
	}
	return files, nil
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(o.Object) == 0: // a document of comments
			continue
		case o.GetKind() == "" || o.GetAPIVersion() == "":
			return nil, errors.New("a document without kind and apiVersion")
		}
		objects = append(objects, o)
	}
}
