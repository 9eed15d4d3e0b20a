package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// referrers is the referrers API of a registry: what was pushed with a subject,
// by repository and subject.
type referrers struct {
	off        bool
	unfiltered bool // does not filter, whatever it is asked
	pageSize   int  // 0 is everything on one page
	doctor     func(*ocispec.Index)
	known      map[string][]ocispec.Descriptor
}

// WithoutReferrers serves no referrers API: what refers to a subject is found
// under its referrers tag alone.
func WithoutReferrers() Option { return func(r *Registry) { r.referrers.off = true } }

// WithoutFilter lists every referrer, whichever type is asked for.
func WithoutFilter() Option { return func(r *Registry) { r.referrers.unfiltered = true } }

// WithPages lists so many referrers on a page.
func WithPages(size int) Option { return func(r *Registry) { r.referrers.pageSize = size } }

// Doctor changes every page of referrers before it is sent: what a registry
// claims need not be so. Nil stops that.
func (r *Registry) Doctor(change func(*ocispec.Index)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.referrers.doctor = change
}

// PushBlob stores content.
func (r *Registry) PushBlob(tb testing.TB, repository, mediaType string, content []byte) ocispec.Descriptor {
	tb.Helper()
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	begun := r.push(http.MethodPost, "/v2/"+repository+"/blobs/uploads/", "", nil)
	location := begun.Header().Get("Location")
	if begun.Code != http.StatusAccepted || location == "" {
		tb.Fatalf("push of a blob: %d %s", begun.Code, begun.Body)
	}
	separator := "?"
	if strings.Contains(location, "?") {
		separator = "&"
	}
	answer := r.push(http.MethodPut, location+separator+"digest="+url.QueryEscape(d.Digest.String()), "application/octet-stream", content)
	if answer.Code != http.StatusCreated {
		tb.Fatalf("push of a blob: %d %s", answer.Code, answer.Body)
	}
	return d
}

// PushTagged stores blobs and a manifest with a tag. What is left empty of the
// manifest becomes that of an artifact of OCI 1.1. Layers that name no digest
// are those of the blobs, in order.
func (r *Registry) PushTagged(tb testing.TB, repository, tag string, manifest ocispec.Manifest, blobs ...[]byte) image.Digest {
	tb.Helper()
	return r.pushArtifact(tb, repository, tag, manifest, blobs)
}

// PushReferrer is PushTagged without a tag, for a manifest that names a subject.
// A registry without the referrers API gets the index under the referrers tag
// too, as clients write it.
func (r *Registry) PushReferrer(tb testing.TB, repository string, manifest ocispec.Manifest, blobs ...[]byte) image.Digest {
	tb.Helper()
	if manifest.Subject == nil {
		tb.Fatal("a referrer names its subject")
	}
	pushed := r.pushArtifact(tb, repository, "", manifest, blobs)
	if r.referrers.off {
		r.list(tb, repository, *manifest.Subject, pushed)
	}
	return pushed
}

// PushArtifact stores blobs and a manifest as they are, with a tag or without. One
// that names a subject is listed as PushReferrer lists it.
func (r *Registry) PushArtifact(tb testing.TB, repository, tag, mediaType string, manifest []byte, blobs ...[]byte) image.Digest {
	tb.Helper()
	for _, blob := range blobs {
		r.PushBlob(tb, repository, "application/octet-stream", blob)
	}
	if tag == "" {
		tag = image.DigestOf(manifest).String()
	}
	pushed := r.PushManifest(tb, repository, tag, mediaType, string(manifest))
	var decoded ocispec.Manifest
	if err := json.Unmarshal(manifest, &decoded); err == nil && decoded.Subject != nil && r.referrers.off {
		r.list(tb, repository, *decoded.Subject, pushed)
	}
	return pushed
}

// Subject is a descriptor that names an image in this registry.
func (r *Registry) Subject(tb testing.TB, repository string, of image.Digest) *ocispec.Descriptor {
	tb.Helper()
	answer := r.push(http.MethodGet, "/v2/"+repository+"/manifests/"+of.String(), "", nil)
	if answer.Code != http.StatusOK {
		tb.Fatalf("get %s: %d %s", of, answer.Code, answer.Body)
	}
	mediaType, _, _ := strings.Cut(answer.Header().Get("Content-Type"), ";")
	return &ocispec.Descriptor{MediaType: mediaType, Digest: digest.Digest(of.String()), Size: int64(answer.Body.Len())}
}

func (r *Registry) pushArtifact(tb testing.TB, repository, tag string, manifest ocispec.Manifest, blobs [][]byte) image.Digest {
	tb.Helper()
	manifest.Versioned = specs.Versioned{SchemaVersion: 2}
	if manifest.MediaType == "" {
		manifest.MediaType = ocispec.MediaTypeImageManifest
	}
	if manifest.Config.Digest == "" {
		typed := manifest.Config.MediaType
		manifest.Config = r.PushBlob(tb, repository, ocispec.MediaTypeEmptyJSON, []byte("{}"))
		if typed != "" {
			manifest.Config.MediaType = typed
		}
	}
	manifest.Layers = slices.Clone(manifest.Layers)
	for i, blob := range blobs {
		pushed := r.PushBlob(tb, repository, "application/octet-stream", blob)
		if i == len(manifest.Layers) {
			manifest.Layers = append(manifest.Layers, ocispec.Descriptor{MediaType: pushed.MediaType})
		}
		if manifest.Layers[i].Digest == "" {
			manifest.Layers[i].Digest, manifest.Layers[i].Size = pushed.Digest, pushed.Size
		}
	}
	body, err := json.Marshal(manifest)
	if err != nil {
		tb.Fatal(err)
	}
	if tag == "" {
		tag = image.DigestOf(body).String()
	}
	return r.PushManifest(tb, repository, tag, manifest.MediaType, string(body))
}

// list adds a referrer to the index under the referrers tag of its subject.
func (r *Registry) list(tb testing.TB, repository string, subject ocispec.Descriptor, of image.Digest) {
	tb.Helper()
	tag := strings.Replace(subject.Digest.String(), ":", "-", 1)
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	if answer := r.push(http.MethodGet, "/v2/"+repository+"/manifests/"+tag, "", nil); answer.Code == http.StatusOK {
		if err := json.Unmarshal(answer.Body.Bytes(), &index); err != nil {
			tb.Fatal(err)
		}
	}
	answer := r.push(http.MethodGet, "/v2/"+repository+"/manifests/"+of.String(), "", nil)
	index.Manifests = append(index.Manifests, describe(answer.Body.Bytes()))
	r.PushIndexOf(tb, repository, tag, index)
}

// PushIndexOf stores an index as it is.
func (r *Registry) PushIndexOf(tb testing.TB, repository, tag string, index ocispec.Index) image.Digest {
	tb.Helper()
	body, err := json.Marshal(index)
	if err != nil {
		tb.Fatal(err)
	}
	return r.PushManifest(tb, repository, tag, ocispec.MediaTypeImageIndex, string(body))
}

// describe is the descriptor of a manifest in a list of referrers.
func describe(body []byte) ocispec.Descriptor {
	var manifest ocispec.Manifest
	_ = json.Unmarshal(body, &manifest) // a manifest that is none is listed without a type
	d := ocispec.Descriptor{
		MediaType:    manifest.MediaType,
		Digest:       digest.FromBytes(body),
		Size:         int64(len(body)),
		ArtifactType: manifest.ArtifactType,
		Annotations:  manifest.Annotations,
	}
	if d.ArtifactType == "" {
		d.ArtifactType = manifest.Config.MediaType
	}
	return d
}

// push sends a request to the content itself, past everything.
func (r *Registry) push(method, target, contentType string, body []byte) *httptest.ResponseRecorder {
	if !strings.HasPrefix(target, "http") {
		target = r.URL() + target
	}
	req := httptest.NewRequest(method, target, strings.NewReader(string(body)))
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for _, accepted := range []string{ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest, "application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json"} {
		req.Header.Add("Accept", accepted)
	}
	answer := httptest.NewRecorder()
	r.content.ServeHTTP(answer, req)
	return answer
}

// referring serves the referrers API in front of content that has none.
func (r *Registry) referring(content http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if repository, subject, ok := split(req.URL.Path, "/referrers/"); ok && req.Method == http.MethodGet {
			r.serveReferrers(w, req, repository, subject)
			return
		}
		repository, _, ok := split(req.URL.Path, "/manifests/")
		if !ok || req.Method != http.MethodPut {
			content.ServeHTTP(w, req)
			return
		}
		body, err := io.ReadAll(io.LimitReader(req.Body, 8<<20))
		if err != nil {
			refuse(w, http.StatusBadRequest)
			return
		}
		req.Body = io.NopCloser(strings.NewReader(string(body)))
		var manifest ocispec.Manifest
		if err := json.Unmarshal(body, &manifest); err == nil && manifest.Subject != nil && !r.referrers.off {
			w.Header().Set("OCI-Subject", manifest.Subject.Digest.String())
			key, d := repository+"@"+manifest.Subject.Digest.String(), describe(body)
			r.mu.Lock()
			if !slices.ContainsFunc(r.referrers.known[key], func(known ocispec.Descriptor) bool { return known.Digest == d.Digest }) {
				r.referrers.known[key] = append(r.referrers.known[key], d)
			}
			r.mu.Unlock()
		}
		content.ServeHTTP(w, req)
	})
}

func split(path, at string) (repository, rest string, ok bool) {
	path, ok = strings.CutPrefix(path, "/v2/")
	if !ok {
		return "", "", false
	}
	return strings.Cut(path, at)
}

func (r *Registry) serveReferrers(w http.ResponseWriter, req *http.Request, repository, subject string) {
	r.mu.Lock()
	all, doctor := slices.Clone(r.referrers.known[repository+"@"+subject]), r.referrers.doctor
	r.mu.Unlock()
	if r.referrers.off {
		refuse(w, http.StatusNotFound)
		return
	}
	if wanted := req.URL.Query().Get("artifactType"); wanted != "" && !r.referrers.unfiltered {
		w.Header().Set("OCI-Filters-Applied", "artifactType")
		all = slices.DeleteFunc(all, func(d ocispec.Descriptor) bool { return d.ArtifactType != wanted })
	}
	from, _ := strconv.Atoi(req.URL.Query().Get("from"))
	page := all[min(max(from, 0), len(all)):]
	if size := r.referrers.pageSize; size > 0 && len(page) > size {
		page = page[:size]
		query := req.URL.Query()
		query.Set("from", strconv.Itoa(from+size))
		w.Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, req.URL.Path, query.Encode()))
	}
	index := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageIndex,
		Manifests: append([]ocispec.Descriptor{}, page...),
	}
	if doctor != nil {
		doctor(&index)
	}
	w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	_ = json.NewEncoder(w).Encode(index)
}

// Content is the manifest with a digest.
func (r *Registry) Content(tb testing.TB, repository string, of image.Digest) []byte {
	tb.Helper()
	answer := r.push(http.MethodGet, "/v2/"+repository+"/manifests/"+of.String(), "", nil)
	if answer.Code != http.StatusOK {
		tb.Fatalf("get %s: %d %s", of, answer.Code, answer.Body)
	}
	return answer.Body.Bytes()
}
