package cosign

import (
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	"github.com/gatehouse-dev/gatehouse/internal/verify/strictjson"
)

const (
	// maxPayload bounds a payload, in bytes.
	maxPayload = 128 << 10
	// payloadType is what a payload says that it is.
	payloadType = "cosign container image signature"
)

// checkPayload refuses a payload that does not sign exactly the subject. The
// second result is the docker-reference if it names another repository: it is
// the signer's own word, proves nothing, and is only passed on.
func checkPayload(content []byte, subject image.Pinned) (refused *verify.Finding, elsewhere string) {
	refuse := func(reason verify.Reason, message string) (*verify.Finding, string) {
		finding := failed(reason, message)
		return &finding, ""
	}
	var payload struct {
		Critical *struct {
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	if err := strictjson.Decode(content, maxDepth, &payload); err != nil {
		return refuse(verify.ReasonMalformed, "its payload cannot be read: "+err.Error())
	}
	switch {
	case payload.Critical == nil:
		return refuse(verify.ReasonMalformed, "its payload says nothing of an image")
	case payload.Critical.Type != payloadType:
		return refuse(verify.ReasonMalformed, "its payload is of type "+quote(payload.Critical.Type)+", and not a "+payloadType)
	case payload.Critical.Image.Digest != subject.Digest().String():
		return refuse(verify.ReasonOtherSubject, "it signs another image: "+digestText(payload.Critical.Image.Digest))
	}
	reference := payload.Critical.Identity.Reference
	if reference == subject.Repository() {
		return nil, ""
	}
	if parsed, err := image.Parse(reference); err == nil && parsed.Repository() == subject.Repository() {
		return nil, ""
	}
	return nil, reference
}

// digestText is a digest that a peer wrote, for a message.
func digestText(stated string) string {
	if digest, err := image.ParseDigest(stated); err == nil {
		return digest.Short()
	}
	return quote(stated)
}
