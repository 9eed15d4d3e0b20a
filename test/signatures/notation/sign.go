package notation

import (
	"crypto"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	"github.com/notaryproject/notation-core-go/signature/cose"
	"github.com/notaryproject/notation-core-go/signature/jws"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The formats of a signature.
const (
	JWS  = jws.MediaTypeEnvelope
	COSE = cose.MediaTypeEnvelope
)

// ArtifactType is what the manifest of a signature says it is.
const ArtifactType = "application/vnd.cncf.notary.signature"

const mediaTypePayload = "application/vnd.cncf.notary.payload.v1+json"

// Signer holds a signing certificate and its key.
type Signer struct {
	// Chain is from the signing certificate to the root.
	Chain []*x509.Certificate
	Key   crypto.Signer
}

// Signing says how a signature is made. A zero field means its default.
type Signing struct {
	// Format is JWS or COSE. Default JWS.
	Format string
	// Time is when it is said to be made. Default now.
	Time time.Time
	// Expiry is when it expires. Default never.
	Expiry time.Time
	// Attributes are further signed attributes that a verifier must know, as
	// the plugin that verifies.
	Attributes map[string]string
	// SigningAuthority says that the time of signing is authentic, as a signing
	// authority does that signs for others.
	SigningAuthority bool
	// Timestamps makes its time stamp. Default none.
	Timestamps *Timestamper
	// Payload is what is signed. Default: the subject, as the Notary Project
	// says.
	Payload []byte
	// ContentType is what the payload is said to be. Default: a payload of the
	// Notary Project.
	ContentType string
}

// Signature is a signature, ready to be pushed.
type Signature struct {
	// Envelope is the signature itself.
	Envelope []byte
	// Layer describes the envelope.
	Layer ocispec.Descriptor
	// Manifest is its manifest, which refers to what is signed.
	Manifest []byte
	// Descriptor describes the manifest.
	Descriptor ocispec.Descriptor
}

// Blobs are what the manifest consists of, by digest.
func (s *Signature) Blobs() map[digest.Digest][]byte {
	return map[digest.Digest][]byte{
		ocispec.DescriptorEmptyJSON.Digest: ocispec.DescriptorEmptyJSON.Data,
		s.Layer.Digest:                     s.Envelope,
	}
}

// Sign signs what subject describes.
func (s *Signer) Sign(subject ocispec.Descriptor, signing Signing) (*Signature, error) {
	if signing.Format == "" {
		signing.Format = JWS
	}
	envelope, err := s.envelope(subject, signing)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", subject.Digest, err)
	}
	return Attach(subject, signing.Format, envelope)
}

// Attach makes the manifest of an envelope that exists.
func Attach(subject ocispec.Descriptor, format string, envelope []byte) (*Signature, error) {
	layer := ocispec.Descriptor{MediaType: format, Digest: digest.FromBytes(envelope), Size: int64(len(envelope))}
	config := ocispec.DescriptorEmptyJSON
	config.Data = nil
	config.MediaType = ArtifactType
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    config,
		Layers:    []ocispec.Descriptor{layer},
		Subject: &ocispec.Descriptor{
			MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the manifest of a signature: %w", err)
	}
	return &Signature{
		Envelope: envelope,
		Layer:    layer,
		Manifest: manifest,
		Descriptor: ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest, ArtifactType: ArtifactType,
			Digest: digest.FromBytes(manifest), Size: int64(len(manifest)),
		},
	}, nil
}

func (s *Signer) envelope(subject ocispec.Descriptor, signing Signing) ([]byte, error) {
	local, err := signature.NewLocalSigner(s.Chain, s.Key)
	if err != nil {
		return nil, err
	}
	payload := signing.Payload
	if payload == nil {
		payload, err = json.Marshal(map[string]ocispec.Descriptor{"targetArtifact": {
			MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size, Annotations: subject.Annotations,
		}})
		if err != nil {
			return nil, err
		}
	}
	if signing.ContentType == "" {
		signing.ContentType = mediaTypePayload
	}
	if signing.Time.IsZero() {
		signing.Time = time.Now()
	}
	request := &signature.SignRequest{
		Payload:       signature.Payload{ContentType: signing.ContentType, Content: payload},
		Signer:        local,
		SigningTime:   signing.Time,
		Expiry:        signing.Expiry,
		SigningScheme: signature.SigningSchemeX509,
		SigningAgent:  "gatehouse",
	}
	if signing.SigningAuthority {
		request.SigningScheme = signature.SigningSchemeX509SigningAuthority
	}
	for key, value := range signing.Attributes {
		request.ExtendedSignedAttributes = append(request.ExtendedSignedAttributes, signature.Attribute{Key: key, Critical: true, Value: value})
	}
	if signing.Timestamps != nil {
		request.Timestamper = signing.Timestamps
		request.TSARootCAs = x509.NewCertPool()
		request.TSARootCAs.AddCert(signing.Timestamps.root)
	}
	envelope, err := signature.NewEnvelope(signing.Format)
	if err != nil {
		return nil, err
	}
	return envelope.Sign(request)
}
