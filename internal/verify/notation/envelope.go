package notation

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/notaryproject/notation-core-go/signature"
	notationcose "github.com/notaryproject/notation-core-go/signature/cose"
	"github.com/notaryproject/notation-core-go/signature/jws"
	nx509 "github.com/notaryproject/notation-core-go/x509"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/veraison/go-cose"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	"github.com/gatehouse-dev/gatehouse/internal/verify/strictjson"
)

const (
	artifactType     = "application/vnd.cncf.notary.signature"
	mediaTypePayload = "application/vnd.cncf.notary.payload.v1+json"

	// maxEnvelope bounds an envelope, in bytes. With its chain and a time stamp
	// one has about 20 KB.
	maxEnvelope = 512 << 10
)

// fetch reads the envelope that a signature's manifest names.
func fetch(ctx context.Context, subject image.Pinned, artifact *verify.Artifact) (ocispec.Descriptor, []byte, *fault) {
	manifest := &artifact.Manifest
	if manifest.Subject == nil {
		return ocispec.Descriptor{}, nil, failed(verify.ReasonMalformed, "the signature's manifest says no subject: sign the image again, with notation 1.0 or later")
	}
	if manifest.Subject.Digest.String() != subject.Digest().String() {
		return ocispec.Descriptor{}, nil, failed(verify.ReasonOtherSubject, "the signature's manifest is about %s: it was copied there from another image", shortened(manifest.Subject.Digest.String()))
	}
	if len(manifest.Layers) != 1 {
		return ocispec.Descriptor{}, nil, failed(verify.ReasonMalformed, "the signature's manifest has %d layers, and a signature has one: sign the image again", len(manifest.Layers))
	}
	layer := manifest.Layers[0]
	switch layer.MediaType {
	case jws.MediaTypeEnvelope, notationcose.MediaTypeEnvelope:
	default:
		return layer, nil, failed(verify.ReasonUnsupported, "the signature is of the format %s: sign in JWS or COSE", quoted(layer.MediaType))
	}
	if layer.Size > maxEnvelope {
		return layer, nil, undecided(verify.ReasonTooLarge, "the signature has %d bytes, more than %d, and was not fetched: sign the image again", layer.Size, maxEnvelope)
	}
	content, err := artifact.Blob(ctx, layer, maxEnvelope)
	if err != nil {
		var cannot *verify.UndecidedError
		if errors.As(err, &cannot) {
			return layer, nil, undecided(cannot.Reason, "the signature could not be fetched: %s", cannot.Err)
		}
		return layer, nil, failed(verify.ReasonMalformed, "the signature is not what its manifest says: push it again")
	}
	if len(content) > maxEnvelope {
		return layer, nil, undecided(verify.ReasonTooLarge, "the signature has more than %d bytes: sign the image again", maxEnvelope)
	}
	return layer, content, nil
}

// shortened is a digest for people, whoever wrote it.
func shortened(text string) string {
	digest, err := image.ParseDigest(text)
	if err != nil {
		return quoted(text)
	}
	return digest.Short()
}

// open reads an envelope and proves that its signature holds for its content and
// its chain for its signature. Whether the chain is trusted is another question.
func open(format string, content []byte, known parsed) (*signature.EnvelopeContent, *fault) {
	chain, fault := peek(format, content, known)
	if fault != nil {
		return nil, fault
	}
	envelope, err := signature.ParseEnvelope(format, content)
	if err != nil {
		return nil, unreadable(format)
	}
	opened, err := envelope.Verify()
	if err != nil {
		return nil, refused(err, format, chain)
	}
	if opened.Payload.ContentType != mediaTypePayload {
		return nil, failed(verify.ReasonUnsupported, "the signature is of content of the type %s: sign the image with notation", quoted(opened.Payload.ContentType))
	}
	return opened, nil
}

// refused says why the library refused an envelope. Its own texts are not
// repeated: some name things in random order, and some repeat the peer's.
func refused(err error, format string, chain []*x509.Certificate) *fault {
	var (
		broken    *signature.SignatureIntegrityError
		algorithm *signature.UnsupportedSignatureAlgoError
		key       *signature.UnsupportedSigningKeyError
	)
	switch {
	case errors.As(err, &broken):
		return failed(verify.ReasonInvalidSignature, "the signature does not hold for what it says it signs: it was altered, or signed with the key of another certificate than it brings; sign the image again")
	case errors.As(err, &algorithm), errors.As(err, &key):
		return failed(verify.ReasonUnsupported, "the signature uses an algorithm or a key that the Notary Project does not allow: sign with RSA of 2048, 3072 or 4096 bits or with ECDSA")
	case nx509.ValidateCodeSigningCertChain(chain, nil) != nil:
		return failed(verify.ReasonUntrustedSigner, "certificate %s and those after it do not make a chain from a code signing certificate to a root: sign with the whole chain, of certificates that meet the Notary Project's requirements", describe(chain[0]))
	default:
		return unreadable(format)
	}
}

func unreadable(format string) *fault {
	name := "JWS"
	if format == notationcose.MediaTypeEnvelope {
		name = "COSE"
	}
	return failed(verify.ReasonMalformed, "the signature does not read as one of the Notary Project in %s: sign the image again", name)
}

// peek reads the chain of an envelope, and refuses what would be read in two ways
// or cost too much to verify.
func peek(format string, content []byte, known parsed) ([]*x509.Certificate, *fault) {
	if format == jws.MediaTypeEnvelope {
		return peekJWS(content, known)
	}
	var message cose.Sign1Message
	if err := message.UnmarshalCBOR(content); err != nil { // refuses keys that stand there twice
		return nil, unreadable(format)
	}
	certificates, ok := message.Headers.Unprotected[cose.HeaderLabelX5Chain].([]any)
	if !ok {
		return nil, unreadable(format)
	}
	var encoded [][]byte
	for _, c := range certificates {
		der, ok := c.([]byte)
		if !ok {
			return nil, unreadable(format)
		}
		encoded = append(encoded, der)
	}
	if err := strictjson.Check(message.Payload, maxDepth); err != nil {
		return nil, ambiguous("its payload", err)
	}
	return parseChain(encoded, known)
}

func peekJWS(content []byte, known parsed) ([]*x509.Certificate, *fault) {
	if err := strictjson.Check(content, maxDepth); err != nil {
		return nil, ambiguous("its JSON", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(content, &members); err != nil {
		return nil, unreadable(jws.MediaTypeEnvelope)
	}
	for name := range members {
		switch name {
		case "payload", "protected", "header", "signature":
		default: // as "signatures", which other readers would prefer
			return nil, failed(verify.ReasonMalformed, "the signature has members besides payload, protected, header and signature: sign the image again")
		}
	}
	var envelope struct {
		Payload   string `json:"payload"`
		Protected string `json:"protected"`
		Header    struct {
			Chain [][]byte `json:"x5c"`
		} `json:"header"`
	}
	if err := json.Unmarshal(content, &envelope); err != nil {
		return nil, unreadable(jws.MediaTypeEnvelope)
	}
	for _, part := range []struct{ name, encoded string }{
		{"its protected header", envelope.Protected}, {"its payload", envelope.Payload},
	} {
		decoded, err := base64.RawURLEncoding.DecodeString(part.encoded)
		if err != nil {
			return nil, unreadable(jws.MediaTypeEnvelope)
		}
		if err := strictjson.Check(decoded, maxDepth); err != nil {
			return nil, ambiguous(part.name, err)
		}
	}
	return parseChain(envelope.Header.Chain, known)
}

func ambiguous(part string, err error) *fault {
	return failed(verify.ReasonMalformed, "the signature cannot be read in one way only: %s: %s; sign the image again", part, err)
}
