package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// disk is an OCI layout that a test writes.
type disk struct {
	testing.TB
	root  string
	index ocispec.Index
}

func newDisk(tb testing.TB) *disk {
	tb.Helper()
	d := &disk{TB: tb, root: tb.TempDir(), index: ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}}}
	if err := os.MkdirAll(filepath.Join(d.root, "mirror/blobs/sha256"), 0o755); err != nil {
		tb.Fatal(err)
	}
	d.save()
	return d
}

func (d *disk) write(name string, content []byte) {
	d.Helper()
	if err := os.WriteFile(filepath.Join(d.root, "mirror", name), content, 0o644); err != nil {
		d.Fatal(err)
	}
}

func (d *disk) save() {
	d.Helper()
	body, err := json.Marshal(d.index)
	if err != nil {
		d.Fatal(err)
	}
	d.write("index.json", body)
}

func (d *disk) blob(content []byte) ocispec.Descriptor {
	d.Helper()
	of := digest.FromBytes(content)
	d.write("blobs/sha256/"+of.Encoded(), content)
	return ocispec.Descriptor{Digest: of, Size: int64(len(content)), MediaType: ocispec.MediaTypeImageManifest}
}

// refer adds a manifest with a subject to the layout, with a name if one is given.
func (d *disk) refer(subject image.Digest, name, content string) image.Digest {
	d.Helper()
	manifest := ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: signature,
		Layers:       []ocispec.Descriptor{d.blob([]byte(content))},
	}
	if !subject.IsZero() {
		manifest.Subject = &ocispec.Descriptor{Digest: digest.Digest(subject.String()), MediaType: ocispec.MediaTypeImageManifest, Size: 1}
	}
	body, err := json.Marshal(manifest)
	if err != nil {
		d.Fatal(err)
	}
	described := d.blob(body)
	if name != "" {
		described.Annotations = map[string]string{ocispec.AnnotationRefName: name}
	}
	d.index.Manifests = append(d.index.Manifests, described)
	d.save()
	return image.DigestOf(body)
}

func (d *disk) open(path string) *registry.Layout {
	d.Helper()
	layout, err := registry.OpenLayout(d.root, path)
	if err != nil {
		d.Fatal(err)
	}
	return layout
}

func (d *disk) session(layout *registry.Layout) *registry.LayoutSession {
	d.Helper()
	pinned, err := image.ParsePinned("registry.example.com/team/gw@" + missing)
	if err != nil {
		d.Fatal(err)
	}
	session := layout.Session(pinned, registry.SessionOptions{})
	d.Cleanup(session.Close)
	return session
}

func (d *disk) list(layout *registry.Layout, subject image.Digest) (found []string, err error) {
	d.Helper()
	for page, err := range d.session(layout).Referrers(context.Background(), subject, "") {
		if err != nil {
			return nil, err
		}
		for _, of := range page {
			found = append(found, string(of.Digest))
		}
	}
	return found, nil
}

func TestALayoutHoldsReferrersByTheirSubject(t *testing.T) {
	d := newDisk(t)
	layout := d.open("mirror")
	subject, other := image.DigestOf([]byte("one")), image.DigestOf([]byte("other"))
	first := d.refer(subject, "", "first")
	d.refer(other, "", "of another")
	for range 2 { // the second time from what is remembered
		if got, err := d.list(layout, subject); err != nil || fmt.Sprint(got) != fmt.Sprintf("[%s]", first) {
			t.Errorf("got %v %v, want %s", got, err, first)
		}
	}
	second := d.refer(subject, "", "second")
	if got, err := d.list(layout, subject); err != nil || fmt.Sprint(got) != fmt.Sprintf("[%s %s]", first, second) {
		t.Errorf("after a change: got %v %v", got, err)
	}
}

func TestALayoutHoldsTags(t *testing.T) {
	d := newDisk(t)
	layout := d.open("mirror")
	byTag := d.refer(image.Digest{}, "sha256-aa.sig", "by tag")
	byReference := d.refer(image.Digest{}, "registry.example.com/team/gw:sha256-bb.sig", "by reference")
	d.refer(image.Digest{}, "registry.example.com/other/gw:sha256-cc.sig", "of another repository")
	session := d.session(layout)
	for tag, want := range map[string]image.Digest{"sha256-aa.sig": byTag, "sha256-bb.sig": byReference} {
		got, err := session.Tagged(t.Context(), tag)
		if err != nil || got.Digest != want {
			t.Errorf("%s: got %v %v, want %v", tag, got.Digest, err, want)
		}
		if err := readLayout(t.Context(), session, want); err != nil {
			t.Errorf("%s: %v", tag, err)
		}
	}
	if _, err := session.Tagged(t.Context(), "sha256-cc.sig"); asError(err) == nil || asError(err).Kind != registry.NotFound {
		t.Errorf("of another repository: %v", err)
	}
}

func readLayout(ctx context.Context, s *registry.LayoutSession, of image.Digest) error {
	got, err := s.Manifest(ctx, of)
	if err != nil {
		return err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(got.Body, &manifest); err != nil {
		return err
	}
	for _, layer := range manifest.Layers {
		if _, err := s.Blob(ctx, layer, 1<<10); err != nil {
			return err
		}
	}
	return nil
}

// Whatever a layout holds, nothing outside its folder is read.
func TestNothingOutsideALayoutIsRead(t *testing.T) {
	for _, path := range []string{"../mirror", "/etc", "mirror/../../etc", "..", ""} {
		if _, err := registry.OpenLayout(t.TempDir(), path); err == nil {
			t.Errorf("%q is taken for a path below the root", path)
		}
	}
	if _, err := registry.OpenLayout("", "mirror"); err == nil || !strings.Contains(err.Error(), "--oci-layout-root") {
		t.Errorf("without a root: %v", err)
	}

	outside := filepath.Join(t.TempDir(), "secret")
	content := []byte("a secret of this machine")
	if err := os.WriteFile(outside, content, 0o600); err != nil {
		t.Fatal(err)
	}
	secret := ocispec.Descriptor{Digest: digest.FromBytes(content), Size: int64(len(content))}
	for name, link := range map[string]func(d *disk, at string) error{
		"by a link": func(_ *disk, at string) error { return os.Symlink(outside, at) },
		"by a link that climbs": func(d *disk, at string) error {
			up, err := filepath.Rel(filepath.Dir(at), outside)
			if err != nil {
				return err
			}
			return os.Symlink(up, at)
		},
		"beside the layout": func(d *disk, at string) error {
			if err := os.WriteFile(filepath.Join(d.root, "beside"), content, 0o600); err != nil {
				return err
			}
			return os.Symlink("../../../beside", at)
		},
	} {
		d := newDisk(t)
		if err := link(d, filepath.Join(d.root, "mirror/blobs/sha256", secret.Digest.Encoded())); err != nil {
			t.Fatal(err)
		}
		if got, err := d.session(d.open("mirror")).Blob(t.Context(), secret, 1<<10); err == nil {
			t.Errorf("%s: read %q", name, got)
		}
	}

	d := newDisk(t)
	if err := os.Symlink(t.TempDir(), filepath.Join(d.root, "away")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.list(d.open("away"), image.DigestOf(nil)); asError(err) == nil || asError(err).Kind != registry.Unreachable {
		t.Errorf("a layout that is a link: %v", err)
	}
}

func TestALayoutThatCannotBeReadIsAnError(t *testing.T) {
	subject := image.DigestOf([]byte("one"))
	for name, row := range map[string]struct {
		spoil func(d *disk)
		path  string
		kind  registry.Kind
		text  string
	}{
		"there is none":   {func(*disk) {}, "gone", registry.Unreachable, "OCI layout gone: it does not exist below --oci-layout-root, or cannot be read"},
		"no index":        {func(d *disk) { os.Remove(filepath.Join(d.root, "mirror/index.json")) }, "mirror", registry.Unreachable, "OCI layout mirror: index.json not found"},
		"index not JSON":  {func(d *disk) { d.write("index.json", []byte("{")) }, "mirror", registry.BadAnswer, "OCI layout mirror: index.json is not the JSON of an index"},
		"index too large": {func(d *disk) { d.write("index.json", make([]byte, 9<<20)) }, "mirror", registry.TooLarge, "OCI layout mirror: index.json is too large"},
		"too many": {func(d *disk) {
			d.index.Manifests = make([]ocispec.Descriptor, 10_001)
			d.save()
		}, "mirror", registry.TooLarge, "OCI layout mirror: index.json lists more than 10000 manifests"},
		"a folder": {func(d *disk) {
			os.Remove(filepath.Join(d.root, "mirror/index.json"))
			os.Mkdir(filepath.Join(d.root, "mirror/index.json"), 0o755)
		}, "mirror", registry.BadAnswer, "OCI layout mirror: index.json is not a file"},
	} {
		d := newDisk(t)
		row.spoil(d)
		_, err := d.list(d.open(row.path), subject)
		if e := asError(err); e == nil || e.Kind != row.kind || e.Error() != row.text {
			t.Errorf("%s: got %v\nwant %s: %s", name, err, row.kind, row.text)
		}
	}
}

func TestContentOfALayoutIsProven(t *testing.T) {
	d := newDisk(t)
	subject := image.DigestOf([]byte("one"))
	of := d.refer(subject, "", "content")
	session := d.session(d.open("mirror"))
	if err := readLayout(t.Context(), session, of); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"CONTENT", "con", "content and more"} {
		d.write("blobs/sha256/"+digest.FromString("content").Encoded(), []byte(content))
		if err := readLayout(t.Context(), session, of); asError(err) == nil || asError(err).Kind != registry.Mismatch {
			t.Errorf("%q: %v", content, err)
		}
	}
	d.write("blobs/sha256/"+digest.FromString("content").Encoded(), []byte("content"))
	for _, size := range []int64{0, 3, 500} {
		wrong := ocispec.Descriptor{Digest: digest.FromString("content"), Size: size}
		if _, err := session.Blob(t.Context(), wrong, 1<<10); asError(err) == nil || asError(err).Kind != registry.BadDescriptor {
			t.Errorf("%d: %v", size, err)
		}
	}
	hex := strings.TrimPrefix(of.String(), "sha256:")
	d.write("blobs/sha256/"+hex, []byte(`{"schemaVersion":2}`))
	if err := readLayout(t.Context(), session, of); asError(err) == nil || asError(err).Kind != registry.Mismatch {
		t.Errorf("another manifest: %v", err)
	}
	os.Remove(filepath.Join(d.root, "mirror/blobs/sha256", hex))
	if err := readLayout(t.Context(), session, of); asError(err) == nil || asError(err).Kind != registry.NotFound {
		t.Errorf("no manifest: %v", err)
	}
}
