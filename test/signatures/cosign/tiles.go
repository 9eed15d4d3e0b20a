package cosign

import (
	"context"
	"crypto"
	"crypto/x509"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	tiles "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
	checkpoints "github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"google.golang.org/protobuf/encoding/protojson"
)

// enterTiles makes an entry as version 2 of Rekor makes it: it proves that it is
// in the log, and states no time. The message of an envelope is what its
// signature is over.
func (s *Sigstore) enterTiles(message, signed []byte, public crypto.PublicKey, certificate *x509.Certificate) (*protorekor.TransparencyLogEntry, error) {
	algorithm, err := signature.GetDefaultAlgorithmDetails(public, options.WithED25519ph())
	if err != nil {
		return nil, err
	}
	verifier := &tiles.Verifier{KeyDetails: algorithm.GetSignatureAlgorithm()}
	if certificate != nil {
		verifier.Verifier = &tiles.Verifier_X509Certificate{X509Certificate: &protocommon.X509Certificate{RawBytes: certificate.Raw}}
	} else {
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			return nil, err
		}
		verifier.Verifier = &tiles.Verifier_PublicKey{PublicKey: &tiles.PublicKey{RawBytes: der}}
	}
	hasher := algorithm.GetHashType().New()
	hasher.Write(message)
	written, err := protojson.Marshal(&tiles.Entry{Kind: "hashedrekord", ApiVersion: "0.0.2", Spec: &tiles.Spec{
		Spec: &tiles.Spec_HashedRekordV002{HashedRekordV002: &tiles.HashedRekordLogEntryV002{
			Data:      &protocommon.HashOutput{Algorithm: algorithm.GetProtoHashType(), Digest: hasher.Sum(nil)},
			Signature: &tiles.Signature{Content: signed, Verifier: verifier},
		}},
	}})
	if err != nil {
		return nil, err
	}
	body, err := jsoncanonicalizer.Transform(written)
	if err != nil {
		return nil, err
	}
	leaf := rfc6962.DefaultHasher.HashLeaf(body)
	signer, err := signature.LoadECDSASignerVerifier(s.log, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	noteSigner, err := rekornote.NewNoteSigner(context.Background(), logOrigin, signer)
	if err != nil {
		return nil, err
	}
	checkpoint, err := note.Sign(&note.Note{
		Text: string(checkpoints.Checkpoint{Origin: logOrigin, Size: 1, Hash: leaf}.Marshal()),
	}, noteSigner)
	if err != nil {
		return nil, err
	}
	return &protorekor.TransparencyLogEntry{
		LogId:             &protocommon.LogId{KeyId: logID(s.log)},
		KindVersion:       &protorekor.KindVersion{Kind: "hashedrekord", Version: "0.0.2"},
		CanonicalizedBody: body,
		InclusionProof: &protorekor.InclusionProof{
			RootHash: leaf, TreeSize: 1,
			Checkpoint: &protorekor.Checkpoint{Envelope: string(checkpoint)},
		},
	}, nil
}
