package cosign

import (
	"encoding/asn1"
	"encoding/hex"
	"errors"

	"github.com/digitorus/pkcs7"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/tlog"
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
	if err := decode(content, &stored); err != nil {
		return nil, err
	}
	log, err := hex.DecodeString(stored.Payload.LogID)
	if err != nil || len(log) == 0 {
		return nil, errors.New("its logID is not hexadecimal")
	}
	var body struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
	}
	if err := decode(stored.Payload.Body, &body); err != nil {
		return nil, errors.New("its body cannot be read: " + err.Error())
	}
	if len(stored.SignedEntryTimestamp) == 0 {
		return nil, errors.New("it lacks the SignedEntryTimestamp")
	}
	entry, err := tlog.ParseTransparencyLogEntry(&protorekor.TransparencyLogEntry{
		LogIndex:          stored.Payload.LogIndex,
		LogId:             &protocommon.LogId{KeyId: log},
		KindVersion:       &protorekor.KindVersion{Kind: body.Kind, Version: body.Version},
		IntegratedTime:    stored.Payload.IntegratedTime,
		InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: stored.SignedEntryTimestamp},
		CanonicalizedBody: stored.Payload.Body,
	})
	if err != nil {
		return nil, errors.New("its body is of no kind that is known")
	}
	return entry, nil
}

// maxStamp bounds a time stamp, in bytes.
const maxStamp = 16 << 10

// parseTimestamp reads what cosign stores of a timestamp authority's answer.
func parseTimestamp(content []byte) ([]byte, error) {
	var stored struct {
		SignedRFC3161Timestamp []byte
	}
	err := decode(content, &stored)
	return stored.SignedRFC3161Timestamp, err
}

// checkStamp refuses a time stamp that would be slow to verify: that is done with
// the certificates that it brings, before these are traced to an authority. A
// stamp that is refused does not count, and is missed only where one is required.
func checkStamp(stamp []byte) error {
	if len(stamp) > maxStamp {
		return errors.New("it is too large")
	}
	var response struct {
		Status asn1.RawValue
		Token  asn1.RawValue `asn1:"optional"`
	}
	if _, err := asn1.Unmarshal(stamp, &response); err != nil {
		return errors.New("it is not the answer of a timestamp authority")
	}
	token, err := pkcs7.Parse(response.Token.FullBytes)
	if err != nil {
		return errors.New("it is not the answer of a timestamp authority")
	}
	for _, certificate := range token.Certificates {
		if usable(certificate.PublicKey) != nil {
			return errors.New("it is signed with a key that is not supported")
		}
	}
	return nil
}
