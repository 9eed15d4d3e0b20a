package cosign

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/tlog"

	"github.com/gatehouse-dev/gatehouse/internal/verify/strictjson"
)

// parseLogEntry reads what cosign stores of Rekor's answer: an entry, and the
// log's signed promise that it is in the log.
func parseLogEntry(content []byte) (*tlog.Entry, error) {
	var stored struct {
		SignedEntryTimestamp []byte
		Payload              struct {
			Body           []byte `json:"body"`
			IntegratedTime int64  `json:"integratedTime"`
			LogIndex       int64  `json:"logIndex"`
			LogID          string `json:"logID"`
		}
	}
	if err := strictjson.Decode(content, maxDepth, &stored); err != nil {
		return nil, err
	}
	log, err := hex.DecodeString(stored.Payload.LogID)
	if err != nil || len(log) == 0 {
		return nil, errors.New("its logID is not hexadecimal")
	}
	kind, version, err := checkBody(stored.Payload.Body)
	if err != nil {
		return nil, err
	}
	if len(stored.SignedEntryTimestamp) == 0 {
		return nil, errors.New("it lacks the SignedEntryTimestamp")
	}
	entry, err := tlog.ParseTransparencyLogEntry(&protorekor.TransparencyLogEntry{
		LogIndex:          stored.Payload.LogIndex,
		LogId:             &protocommon.LogId{KeyId: log},
		KindVersion:       &protorekor.KindVersion{Kind: kind, Version: version},
		IntegratedTime:    stored.Payload.IntegratedTime,
		InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: stored.SignedEntryTimestamp},
		CanonicalizedBody: stored.Payload.Body,
	})
	if err != nil {
		return nil, errors.New("its body is of no kind that is known")
	}
	return entry, nil
}

// Bounds of a log entry.
const (
	maxBody       = 16 << 10 // bytes
	maxCheckpoint = 16 << 10 // bytes
	maxHashes     = 64       // of a proof, which are as many as the tree is high
)

// checkBody refuses the body of an entry that the library would not merely read.
// Of what asks to be entered it verifies every signature with every key, which
// takes hours if there are many; what has been entered has one signature, and is
// read. It gives the entry's kind and version.
func checkBody(content []byte) (kind, version string, err error) {
	if len(content) > maxBody {
		return "", "", errors.New("its body is too large")
	}
	var body struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
		Spec    struct {
			// Of a hashedrekord: the library verifies this one.
			Signature struct {
				PublicKey struct {
					Content []byte `json:"content"`
				} `json:"publicKey"`
			} `json:"signature"`
			// Of dsse.
			ProposedContent any   `json:"proposedContent"`
			Signatures      []any `json:"signatures"`
			// Of intoto.
			Content struct {
				Envelope struct {
					Payload    any   `json:"payload"`
					Signatures []any `json:"signatures"`
				} `json:"envelope"`
			} `json:"content"`
		} `json:"spec"`
	}
	if err := strictjson.Decode(content, maxDepth, &body); err != nil {
		return "", "", errors.New("its body cannot be read: " + err.Error())
	}
	spec := body.Spec
	if spec.ProposedContent != nil || spec.Content.Envelope.Payload != nil {
		return "", "", errors.New("its body asks to be entered")
	}
	if len(spec.Signatures) > 1 || len(spec.Content.Envelope.Signatures) > 1 {
		return "", "", errors.New("its body has more than one signature")
	}
	if key := spec.Signature.PublicKey.Content; key != nil && !usablePEM(key) {
		return "", "", errors.New("its body has a key that is not supported")
	}
	return body.Kind, body.Version, nil
}

// usablePEM reports whether a certificate or a public key is one that is
// verified with.
func usablePEM(content []byte) bool {
	block, _ := pem.Decode(content)
	if block == nil {
		return false
	}
	if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
		return usable(certificate.PublicKey) == nil
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	return err == nil && usable(public) == nil
}

// checkEntry refuses an entry of a bundle that would be slow to verify.
func checkEntry(entry *protorekor.TransparencyLogEntry) error {
	proof := entry.GetInclusionProof()
	if len(proof.GetCheckpoint().GetEnvelope()) > maxCheckpoint || len(proof.GetHashes()) > maxHashes {
		return errors.New("its proof of inclusion is too large")
	}
	_, _, err := checkBody(entry.GetCanonicalizedBody())
	return err
}
