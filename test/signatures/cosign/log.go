package cosign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/digitorus/timestamp"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/rekor/pkg/types"
	dsseentry "github.com/sigstore/rekor/pkg/types/dsse"
	_ "github.com/sigstore/rekor/pkg/types/dsse/v0.0.1" // the version of entries for envelopes
	"github.com/sigstore/rekor/pkg/types/hashedrekord"
	_ "github.com/sigstore/rekor/pkg/types/hashedrekord/v0.0.1" // the version of entries for messages
	rekorutil "github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore/pkg/signature"
)

// logOrigin is how the log calls itself; it is the host of its URL.
const logOrigin = "rekor.example.com"

// logMessage enters the signature of a message into the log: verifier is the PEM
// of the key or of the certificate.
func (s *Sigstore) logMessage(message, signed, verifier []byte, hash crypto.Hash, at time.Time) (*protorekor.TransparencyLogEntry, error) {
	hasher := hash.New()
	hasher.Write(message)
	return s.enter(hashedrekord.KIND, "0.0.1", types.ArtifactProperties{
		PKIFormat:      "x509",
		ArtifactHash:   rekorutil.PrefixSHA(hex.EncodeToString(hasher.Sum(nil))),
		SignatureBytes: signed,
		PublicKeyBytes: [][]byte{verifier},
	}, at)
}

// logEnvelope enters a DSSE envelope.
func (s *Sigstore) logEnvelope(envelope, verifier []byte, at time.Time) (*protorekor.TransparencyLogEntry, error) {
	return s.enter(dsseentry.KIND, "0.0.1", types.ArtifactProperties{
		PKIFormat:      "x509",
		ArtifactBytes:  envelope,
		PublicKeyBytes: [][]byte{verifier},
	}, at)
}

// enter makes an entry, with a promise and a proof that it is in the log. The
// log is short: the entry is the only one in its tree.
func (s *Sigstore) enter(kind, version string, properties types.ArtifactProperties, at time.Time) (*protorekor.TransparencyLogEntry, error) {
	ctx := context.Background()
	proposed, err := types.NewProposedEntry(ctx, kind, version, properties)
	if err != nil {
		return nil, err
	}
	versioned, err := types.CreateVersionedEntry(proposed)
	if err != nil {
		return nil, err
	}
	body, err := types.CanonicalizeEntry(ctx, versioned)
	if err != nil {
		return nil, err
	}
	entry := &protorekor.TransparencyLogEntry{
		LogIndex:          s.serial.Add(1),
		LogId:             &protocommon.LogId{KeyId: logID(s.log)},
		KindVersion:       &protorekor.KindVersion{Kind: kind, Version: version},
		IntegratedTime:    at.Unix(),
		CanonicalizedBody: body,
	}
	signed, err := s.signEntry(entry)
	if err != nil {
		return nil, err
	}
	entry.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: signed}

	leaf := sha256.Sum256(append([]byte{0}, body...)) // RFC 6962, 2.1
	signer, err := signature.LoadECDSASignerVerifier(s.log, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	checkpoint, err := rekorutil.CreateAndSignCheckpoint(ctx, logOrigin, 1, 1, leaf[:], signer)
	if err != nil {
		return nil, err
	}
	entry.InclusionProof = &protorekor.InclusionProof{
		RootHash: leaf[:], TreeSize: 1,
		Checkpoint: &protorekor.Checkpoint{Envelope: string(checkpoint)},
	}
	return entry, nil
}

// signEntry is the log's signature over an entry and its time.
func (s *Sigstore) signEntry(entry *protorekor.TransparencyLogEntry) ([]byte, error) {
	encoded, err := json.Marshal(payloadOf(entry))
	if err != nil {
		return nil, err
	}
	canonical, err := jsoncanonicalizer.Transform(encoded)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(canonical)
	return ecdsa.SignASN1(rand.Reader, s.log, sum[:])
}

func payloadOf(entry *protorekor.TransparencyLogEntry) tlog.RekorPayload {
	return tlog.RekorPayload{
		Body:           base64.StdEncoding.EncodeToString(entry.CanonicalizedBody),
		IntegratedTime: entry.IntegratedTime,
		LogIndex:       entry.LogIndex,
		LogID:          hex.EncodeToString(entry.LogId.KeyId),
	}
}

// stamp is the timestamp authority's word that a signature existed at a time
// (RFC 3161).
func (s *Sigstore) stamp(signed []byte, at time.Time) ([]byte, error) {
	request, err := timestamp.CreateRequest(bytes.NewReader(signed), &timestamp.RequestOptions{Hash: crypto.SHA256})
	if err != nil {
		return nil, err
	}
	asked, err := timestamp.ParseRequest(request)
	if err != nil {
		return nil, err
	}
	answer := &timestamp.Timestamp{
		HashAlgorithm: asked.HashAlgorithm,
		HashedMessage: asked.HashedMessage,
		Time:          at,
		Policy:        []int{1, 3, 6, 1, 4, 1, 57264, 2},
	}
	return answer.CreateResponseWithOpts(s.timestamps, s.timestampKey, crypto.SHA256)
}
