package cosign

import (
	"encoding/asn1"
	"errors"

	"github.com/digitorus/pkcs7"

	"github.com/gatehouse-dev/gatehouse/internal/verify/strictjson"
)

// maxStamp bounds a time stamp, in bytes.
const maxStamp = 16 << 10

// parseTimestamp reads what cosign stores of a timestamp authority's answer.
func parseTimestamp(content []byte) ([]byte, error) {
	var stored struct {
		SignedRFC3161Timestamp []byte
	}
	err := strictjson.Decode(content, maxDepth, &stored)
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
