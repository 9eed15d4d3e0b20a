package cosign

import (
	"fmt"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
	"github.com/gatehouse-dev/gatehouse/internal/verify/strictjson"
)

const (
	// payloadStatement is what an envelope holds: an in-toto statement.
	payloadStatement = "application/vnd.in-toto+json"
	statementType    = "https://in-toto.io/Statement/v1"
	// predicateSignature is the predicate type of a statement that says nothing
	// but that the image is signed. Others say something about the image, and
	// whoever says so need not want it to run.
	predicateSignature = "https://sigstore.dev/cosign/sign/v1"
)

// checkStatement refuses what an envelope holds if it is not cosign's signature
// of exactly the subject.
func checkStatement(payloadType string, payload []byte, algorithm, digest string) *verify.Finding {
	refuse := func(reason verify.Reason, message string) *verify.Finding {
		finding := failed(reason, message)
		return &finding
	}
	if payloadType != payloadStatement {
		return refuse(verify.ReasonNotASignature, "it is no signature, but an envelope of type "+quote(payloadType))
	}
	var statement struct {
		Type    string `json:"_type"`
		Subject []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
		PredicateType string `json:"predicateType"`
	}
	if err := strictjson.Decode(payload, maxDepth, &statement); err != nil {
		return refuse(verify.ReasonMalformed, "its statement cannot be read: "+err.Error())
	}
	if statement.PredicateType != predicateSignature {
		finding := attestation(statement.PredicateType)
		return &finding
	}
	if statement.Type != statementType {
		return refuse(verify.ReasonMalformed, "its statement is of type "+quote(statement.Type)+", and not "+statementType)
	}
	if len(statement.Subject) != 1 {
		return refuse(verify.ReasonMalformed, fmt.Sprintf("its statement is about %d subjects; a signature is about exactly one", len(statement.Subject)))
	}
	stated, ok := statement.Subject[0].Digest[algorithm]
	if !ok {
		return refuse(verify.ReasonOtherSubject, "it signs something that has no "+algorithm+" digest")
	}
	if stated != digest {
		return refuse(verify.ReasonOtherSubject, "it signs another image: "+digestText(algorithm+":"+stated))
	}
	return nil
}

// attestation is the finding for a statement that is no signature.
func attestation(predicateType string) verify.Finding {
	return failed(verify.ReasonNotASignature, "it is an attestation with predicate type "+quote(predicateType)+", which is no signature")
}
