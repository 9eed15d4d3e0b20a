package registry

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Referrers lists, page by page, the descriptors of what is said to refer to a
// subject. Whatever such a descriptor says, of types, annotations, sizes, is a
// claim: only the manifest that its digest names tells. An artifactType that is
// not empty asks the registry to list that type alone, which it may do or not.
//
// A registry without the referrers API is asked for the index under the tag that
// the OCI distribution specification has for it, each time anew. The sequence
// ends after an error.
func (s *Session) Referrers(ctx context.Context, subject image.Digest, artifactType string) iter.Seq2[[]ocispec.Descriptor, error] {
	return func(yield func([]ocispec.Descriptor, error) bool) {
		next := s.attempt.base + "referrers/" + subject.String()
		if artifactType != "" {
			next += "?artifactType=" + url.QueryEscape(artifactType)
		}
		listed := 0
		for page := 0; next != ""; page++ {
			if page == s.options.MaxPages {
				yield(nil, s.attempt.fail(TooLarge, "lists referrers on more than "+strconv.Itoa(s.options.MaxPages)+" pages"))
				return
			}
			descriptors, link, err := s.page(ctx, next, subject, page == 0)
			if err != nil {
				yield(nil, err)
				return
			}
			over := listed+len(descriptors) > s.options.MaxReferrers
			if over {
				descriptors = descriptors[:s.options.MaxReferrers-listed]
			}
			listed += len(descriptors)
			if !yield(descriptors, nil) {
				return
			}
			if over {
				yield(nil, s.attempt.fail(TooLarge, "lists more than "+strconv.Itoa(s.options.MaxReferrers)+" referrers"))
				return
			}
			if next, err = s.attempt.following(next, link); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// page asks for one page, and for the index under the tag if the first page shows
// that there is no referrers API.
func (s *Session) page(ctx context.Context, from string, subject image.Digest, first bool) ([]ocispec.Descriptor, []string, *Error) {
	got, err := s.get(ctx, request{
		url:    from,
		accept: ocispec.MediaTypeImageIndex,
		limit:  s.attempt.options.MaxManifest,
		what:   subject.String(),
		noun:   "list of referrers",
	})
	noAPI := err != nil && (err.status == http.StatusNotFound || err.status == http.StatusMethodNotAllowed)
	if first && (noAPI || err == nil && mediaType(got.mediaType) != ocispec.MediaTypeImageIndex) {
		descriptors, fallback := s.fallback(ctx, subject)
		if fallback != nil && fallback.Kind == NotFound {
			if noAPI {
				return nil, nil, nil // nothing refers to it
			}
			return nil, nil, s.attempt.fail(BadAnswer, "its list of referrers is no OCI index")
		}
		return descriptors, nil, fallback
	}
	if err != nil {
		return nil, nil, err
	}
	descriptors, fault := readIndex(got.body)
	if fault != "" {
		return nil, nil, s.attempt.fail(BadAnswer, "its list of referrers "+fault)
	}
	return descriptors, got.header.Values("Link"), nil
}

// fallback reads the index under the referrers tag.
func (s *Session) fallback(ctx context.Context, subject image.Digest) ([]ocispec.Descriptor, *Error) {
	got, err := s.manifest(ctx, ReferrersTag(subject))
	if err != nil {
		return nil, err
	}
	descriptors, fault := readIndex(got.Body)
	if fault != "" {
		return nil, s.attempt.fail(BadAnswer, "repository "+s.attempt.ref.Path()+": what its referrers tag names "+fault)
	}
	return descriptors, nil
}

// ReferrersTag is the tag under which clients list the referrers of a subject in
// a registry without the referrers API.
func ReferrersTag(subject image.Digest) string {
	algorithm, hex, _ := strings.Cut(subject.String(), ":")
	return cut(algorithm, 32) + "-" + cut(hex, 64)
}

func cut(s string, n int) string { return s[:min(n, len(s))] }

// readIndex reads the descriptors of an index, or says what is wrong with it.
func readIndex(body []byte) (descriptors []ocispec.Descriptor, fault string) {
	var index struct {
		SchemaVersion int                   `json:"schemaVersion"`
		MediaType     string                `json:"mediaType"`
		Manifests     *[]ocispec.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(body, &index); err != nil {
		return nil, "is not the JSON of an index"
	}
	if index.SchemaVersion != 2 || (index.MediaType != "" && index.MediaType != ocispec.MediaTypeImageIndex) {
		return nil, "is no OCI index"
	}
	if index.Manifests == nil {
		return nil, "" // some registries say null where they mean none
	}
	return *index.Manifests, ""
}

// maxLink bounds a Link header, in bytes.
const maxLink = 4 << 10

// following is the URL of the next page, empty if there is none. It must be of the
// same repository's referrers: a page that leads elsewhere would send this
// process, with its token, wherever the registry likes.
func (a *attempt) following(from string, links []string) (string, *Error) {
	target := nextLink(links)
	if target == "" {
		return "", nil
	}
	base, err := url.Parse(from)
	if err != nil {
		return "", a.fail(BadAnswer, "the link to its next page of referrers cannot be followed")
	}
	next, err := base.Parse(target)
	if err != nil || next.Host != base.Host || next.Path != base.Path || next.RawQuery == base.RawQuery {
		return "", a.fail(BadAnswer, "the link to its next page of referrers leads elsewhere")
	}
	// Behind a proxy that ends TLS a registry may take itself for one without.
	base.RawQuery = next.RawQuery
	return base.String(), nil
}

// nextLink finds the target of rel="next" in Link headers, RFC 8288.
func nextLink(headers []string) string {
	for _, header := range headers {
		if len(header) > maxLink {
			continue
		}
		for rest := header; ; {
			start := strings.IndexByte(rest, '<')
			if start < 0 {
				break
			}
			end := strings.IndexByte(rest[start:], '>')
			if end < 0 {
				break
			}
			target := rest[start+1 : start+end]
			rest = rest[start+end+1:]
			parameters := rest
			if comma := strings.IndexByte(rest, ','); comma >= 0 {
				parameters, rest = rest[:comma], rest[comma+1:]
			} else {
				rest = ""
			}
			for parameter := range strings.SplitSeq(parameters, ";") {
				name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
				value = strings.Trim(strings.TrimSpace(value), `"`)
				if strings.EqualFold(strings.TrimSpace(name), "rel") && strings.EqualFold(value, "next") {
					return target
				}
			}
		}
	}
	return ""
}
