package registry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Bounds of an OCI layout.
const (
	maxLayoutIndex     = 8 << 20
	maxLayoutManifest  = 4 << 20
	maxLayoutManifests = 10_000
)

// Layout is an OCI image layout on disk, in which signatures are found as in a
// repository. It holds images of any repository: an image is in it by its digest.
type Layout struct {
	root, path string

	mu   sync.Mutex
	seen image.Digest // of the index.json that referrers was made from
	refs map[image.Digest][]ocispec.Descriptor
}

// OpenLayout names the layout at a path below root. Nothing outside root is ever
// read, whatever links there are in it.
func OpenLayout(root, path string) (*Layout, error) {
	switch {
	case root == "":
		return nil, errors.New("no root for OCI layouts is given; set --oci-layout-root")
	case !filepath.IsLocal(path):
		return nil, errors.New("OCI layout " + quoted(path) + ": the path must be relative and without ..")
	}
	return &Layout{root: root, path: filepath.Clean(path)}, nil
}

// LayoutSession reads a layout for one purpose. It is as Session is.
type LayoutSession struct {
	layout  *Layout
	subject image.Pinned
	options SessionOptions

	open  func() (*os.Root, error)
	index func() (layoutIndex, *Error)
}

type layoutIndex struct {
	digest      image.Digest
	descriptors []ocispec.Descriptor
}

// Session begins to read. Close ends it.
func (l *Layout) Session(of image.Pinned, options SessionOptions) *LayoutSession {
	s := &LayoutSession{layout: l, subject: of, options: options.withDefaults()}
	s.open = sync.OnceValues(func() (*os.Root, error) {
		root, err := os.OpenRoot(l.root)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		return root.OpenRoot(l.path)
	})
	s.index = sync.OnceValues(s.readIndex)
	return s
}

// Close gives back what the session holds.
func (s *LayoutSession) Close() {
	if root, err := s.open(); err == nil {
		root.Close()
	}
}

func (l *Layout) fail(kind Kind, text string) *Error {
	return &Error{Kind: kind, text: "OCI layout " + l.path + ": " + text}
}

// read reads a file of the layout that has at most limit bytes.
func (s *LayoutSession) read(ctx context.Context, name, noun string, limit int64) ([]byte, *Error) {
	if ctx.Err() != nil {
		return nil, s.layout.fail(Interrupted, "the question was given up")
	}
	root, err := s.open()
	if err != nil {
		return nil, s.unreadable(err, "it does not exist below --oci-layout-root, or cannot be read", Unreachable)
	}
	info, err := root.Stat(name)
	if err != nil {
		return nil, s.unreadable(err, noun+" not found", NotFound)
	}
	if !info.Mode().IsRegular() {
		return nil, s.layout.fail(BadAnswer, noun+" is not a file")
	}
	if info.Size() > limit {
		return nil, s.layout.fail(TooLarge, noun+" is too large")
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, s.unreadable(err, noun+" not found", NotFound)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, s.unreadable(err, noun+" cannot be read", Unreachable)
	}
	if int64(len(content)) > limit {
		return nil, s.layout.fail(TooLarge, noun+" is too large")
	}
	return content, nil
}

func (s *LayoutSession) unreadable(err error, text string, missing Kind) *Error {
	var e *Error
	if errors.Is(err, fs.ErrNotExist) {
		e = s.layout.fail(missing, text)
	} else {
		e = s.layout.fail(Unreachable, "cannot be read")
	}
	e.Detail = quoted(err.Error())
	e.cause = err
	return e
}

func (s *LayoutSession) readIndex() (layoutIndex, *Error) {
	content, err := s.read(context.Background(), ocispec.ImageIndexFile, ocispec.ImageIndexFile, maxLayoutIndex)
	if err != nil {
		if err.Kind == NotFound { // then it is no layout
			err.Kind = Unreachable
		}
		return layoutIndex{}, err
	}
	descriptors, fault := readIndex(content)
	if fault != "" {
		return layoutIndex{}, s.layout.fail(BadAnswer, ocispec.ImageIndexFile+" "+fault)
	}
	if len(descriptors) > maxLayoutManifests {
		return layoutIndex{}, s.layout.fail(TooLarge, ocispec.ImageIndexFile+" lists more than "+strconv.Itoa(maxLayoutManifests)+" manifests")
	}
	return layoutIndex{image.DigestOf(content), descriptors}, nil
}

func blobPath(digest image.Digest) string {
	algorithm, hex, _ := strings.Cut(digest.String(), ":")
	return path.Join(ocispec.ImageBlobsDir, algorithm, hex)
}

// Manifest reads the manifest with a digest.
func (s *LayoutSession) Manifest(ctx context.Context, digest image.Digest) (Manifest, error) {
	content, err := s.read(ctx, blobPath(digest), "manifest "+digest.Short(), maxLayoutManifest)
	if err != nil {
		return Manifest{}, err
	}
	if !digest.Matches(content) {
		return Manifest{}, s.layout.fail(Mismatch, "a manifest does not match its digest")
	}
	return Manifest{Digest: digest, Body: content}, nil
}

// Tagged reads the manifest that a tag names: an entry of the index whose
// org.opencontainers.image.ref.name is the tag, or the reference with it. The
// signatures that cosign saved beside the one image of a layout have a mark
// instead of a tag.
func (s *LayoutSession) Tagged(ctx context.Context, tag string) (Manifest, error) {
	index, err := s.index()
	if err != nil {
		return Manifest{}, err
	}
	var marked []ocispec.Descriptor
	for _, d := range index.descriptors {
		name := d.Annotations[ocispec.AnnotationRefName]
		if name == tag || name == s.subject.Repository()+":"+tag {
			return s.described(ctx, d)
		}
		if d.Annotations["kind"] == "dev.cosignproject.cosign/sigs" {
			marked = append(marked, d)
		}
	}
	if len(marked) == 1 && strings.HasSuffix(tag, ".sig") {
		return s.described(ctx, marked[0])
	}
	return Manifest{}, s.layout.fail(NotFound, "tag "+tag+" not found")
}

func (s *LayoutSession) described(ctx context.Context, d ocispec.Descriptor) (Manifest, error) {
	digest, err := image.ParseDigest(string(d.Digest))
	if err != nil {
		return Manifest{}, s.layout.fail(BadDescriptor, "a descriptor states a digest that is none")
	}
	return s.Manifest(ctx, digest)
}

// Blob reads the content of a descriptor, if it is of at most limit bytes.
func (s *LayoutSession) Blob(ctx context.Context, descriptor ocispec.Descriptor, limit int64) ([]byte, error) {
	digest, parseErr := image.ParseDigest(string(descriptor.Digest))
	switch {
	case parseErr != nil || descriptor.Size < 0:
		return nil, s.layout.fail(BadDescriptor, "a descriptor states a digest or a size that is none")
	case descriptor.Size > limit:
		return nil, s.layout.fail(TooLarge, "a blob of more than "+strconv.FormatInt(limit, 10)+" bytes is not read")
	}
	content, err := s.read(ctx, blobPath(digest), "blob "+digest.Short(), limit)
	if err != nil {
		return nil, err
	}
	switch {
	case !digest.Matches(content):
		return nil, s.layout.fail(Mismatch, "a blob does not match its digest")
	case int64(len(content)) != descriptor.Size:
		return nil, s.layout.fail(BadDescriptor, "a descriptor states another size than its blob has")
	}
	return content, nil
}

// Referrers lists the manifests of the layout that name the subject, and those
// under its referrers tag, in one page.
func (s *LayoutSession) Referrers(ctx context.Context, subject image.Digest, _ string) iter.Seq2[[]ocispec.Descriptor, error] {
	return func(yield func([]ocispec.Descriptor, error) bool) {
		index, err := s.index()
		if err != nil {
			yield(nil, err)
			return
		}
		bySubject, err := s.bySubject(ctx, index)
		if err != nil {
			yield(nil, err)
			return
		}
		found := append([]ocispec.Descriptor{}, bySubject[subject]...)
		if tagged, err := s.Tagged(ctx, ReferrersTag(subject)); err == nil {
			listed, fault := readIndex(tagged.Body)
			if fault != "" {
				yield(nil, s.layout.fail(BadAnswer, "what its referrers tag names "+fault))
				return
			}
			found = append(found, listed...)
		} else if e, ok := asError(err); ok && e.Kind != NotFound {
			yield(nil, err)
			return
		}
		over := len(found) > s.options.MaxReferrers
		if over {
			found = found[:s.options.MaxReferrers]
		}
		if yield(found, nil) && over {
			yield(nil, s.layout.fail(TooLarge, "holds more than "+strconv.Itoa(s.options.MaxReferrers)+" referrers"))
		}
	}
}

// bySubject groups the manifests of an index by the subject that they name. What
// it finds is true of an index for ever, content being addressed by its digest,
// so it is kept until the index changes.
func (s *LayoutSession) bySubject(ctx context.Context, index layoutIndex) (map[image.Digest][]ocispec.Descriptor, *Error) {
	s.layout.mu.Lock()
	defer s.layout.mu.Unlock()
	if s.layout.seen == index.digest {
		return s.layout.refs, nil
	}
	refs := map[image.Digest][]ocispec.Descriptor{}
	complete := true
	for _, d := range index.descriptors {
		got, err := s.described(ctx, d)
		if e, failed := asError(err); failed {
			if e.Kind == Unreachable || e.Kind == Interrupted {
				return nil, e
			}
			complete = false // it may be there the next time
			continue
		}
		var manifest struct {
			Subject *ocispec.Descriptor `json:"subject"`
		}
		if err := json.Unmarshal(got.Body, &manifest); err != nil || manifest.Subject == nil {
			continue
		}
		if subject, err := image.ParseDigest(string(manifest.Subject.Digest)); err == nil {
			refs[subject] = append(refs[subject], d)
		}
	}
	if complete {
		s.layout.seen, s.layout.refs = index.digest, refs
	}
	return refs, nil
}
