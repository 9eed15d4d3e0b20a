package verification

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	notationgo "github.com/notaryproject/notation-go"
	notationverifier "github.com/notaryproject/notation-go/verifier"
	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	"github.com/notaryproject/notation-go/verifier/truststore"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
	"github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

// floor is verifying with nothing between: a client that keeps its connections,
// and the library. What comes is checked against its digest.
type floor struct {
	client *http.Client
	base   string
}

func newFloor(h *hub, concurrency int) floor {
	return floor{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrency, DisableCompression: true}},
		base:   "http://" + h.Host + "/v2/" + repository,
	}
}

// maxBody bounds what is read of an answer, in bytes.
const maxBody = 4 << 20

func (f floor) get(ctx context.Context, path, accept string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.base+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	answer, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, answer.Status)
	}
	return body, err
}

func (f floor) content(ctx context.Context, kind string, d ocispec.Descriptor) ([]byte, error) {
	body, err := f.get(ctx, "/"+kind+"/"+d.Digest.String(), ocispec.MediaTypeImageManifest)
	if err == nil && (int64(len(body)) != d.Size || image.DigestOf(body).String() != d.Digest.String()) {
		err = errors.New("the content is another")
	}
	return body, err
}

// verifyFunc verifies one image; an error says that it does not pass.
type verifyFunc func(context.Context, image.Pinned) error

// trusted is a trust store in memory.
type trusted struct{ roots []*x509.Certificate }

func (t trusted) GetCertificates(context.Context, truststore.Type, string) ([]*x509.Certificate, error) {
	return t.roots, nil
}

func notationFloor(tb testing.TB, h *hub, concurrency int) verifyFunc {
	tb.Helper()
	block, _ := pem.Decode([]byte(h.Trust))
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		tb.Fatal(err)
	}
	verifier, err := notationverifier.New(&trustpolicy.Document{Version: "1.0", TrustPolicies: []trustpolicy.TrustPolicy{{
		Name: "all", RegistryScopes: []string{"*"}, TrustedIdentities: []string{"*"}, TrustStores: []string{"ca:all"},
		SignatureVerification: trustpolicy.SignatureVerification{
			VerificationLevel: "strict",
			Override:          map[trustpolicy.ValidationType]trustpolicy.ValidationAction{trustpolicy.TypeRevocation: trustpolicy.ActionSkip},
		},
	}}}, trusted{[]*x509.Certificate{ca}}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	f := newFloor(h, concurrency)
	return func(ctx context.Context, subject image.Pinned) error {
		listed, err := f.get(ctx, "/referrers/"+subject.Digest().String()+"?artifactType="+notation.ArtifactType, ocispec.MediaTypeImageIndex)
		if err != nil {
			return err
		}
		var index ocispec.Index
		if err := json.Unmarshal(listed, &index); err != nil {
			return err
		}
		for _, found := range index.Manifests {
			raw, err := f.content(ctx, "manifests", found)
			if err != nil {
				return err
			}
			var manifest ocispec.Manifest
			if err := json.Unmarshal(raw, &manifest); err != nil {
				return err
			}
			envelope, err := f.content(ctx, "blobs", manifest.Layers[0])
			if err != nil {
				return err
			}
			_, err = verifier.Verify(ctx, *manifest.Subject, envelope, notationgo.VerifierVerifyOptions{
				ArtifactReference: subject.String(), SignatureMediaType: manifest.Layers[0].MediaType,
			})
			if err == nil {
				return nil
			}
		}
		return errors.New("no signature verifies")
	}
}

func cosignFloor(tb testing.TB, h *hub, concurrency int) verifyFunc {
	tb.Helper()
	public, err := cryptoutils.UnmarshalPEMToPublicKey([]byte(h.Trust))
	if err != nil {
		tb.Fatal(err)
	}
	check, err := signature.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		tb.Fatal(err)
	}
	key := root.NewExpiringKey(check, time.Time{}, time.Time{})
	verifier, err := sigstore.NewVerifier(root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) { return key, nil }), sigstore.WithNoObserverTimestamps())
	if err != nil {
		tb.Fatal(err)
	}
	f := newFloor(h, concurrency)
	return func(ctx context.Context, subject image.Pinned) error {
		raw, err := f.get(ctx, "/manifests/"+cosign.Tag(subject.Digest()), ocispec.MediaTypeImageManifest)
		if err != nil {
			return err
		}
		var manifest ocispec.Manifest
		if err := json.Unmarshal(raw, &manifest); err != nil {
			return err
		}
		for _, layer := range manifest.Layers {
			payload, err := f.content(ctx, "blobs", layer)
			if err != nil {
				return err
			}
			if err := verifyPayload(verifier, subject, payload, layer.Annotations[cosign.AnnotationSignature]); err == nil {
				return nil
			}
		}
		return errors.New("no signature verifies")
	}
}

func verifyPayload(verifier *sigstore.Verifier, subject image.Pinned, payload []byte, encoded string) error {
	made, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	var signed struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(payload, &signed); err != nil {
		return err
	}
	if signed.Critical.Image.Digest != subject.Digest().String() {
		return errors.New("another image is signed")
	}
	hash := crypto.SHA256.New()
	hash.Write(payload)
	entity, err := bundle.NewBundle(&protobundle.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{}},
		},
		Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: hash.Sum(nil)},
			Signature:     made,
		}},
	})
	if err != nil {
		return err
	}
	_, err = verifier.Verify(entity, sigstore.NewPolicy(sigstore.WithArtifact(bytes.NewReader(payload)), sigstore.WithKey()))
	return err
}

// kinds are the ways to sign, and how each is verified at the floor.
var kinds = map[string]func(testing.TB, *hub, int) verifyFunc{"notation": notationFloor, "cosign": cosignFloor}

func indented(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n          ")
}
