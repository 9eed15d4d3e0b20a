// Package cosign makes signatures that cosign would make, for tests and for the
// demo: by keys, and keyless at a Sigstore of its own, which has a certificate
// authority with a certificate log, a transparency log and a timestamp
// authority. What it makes is real: keys, certificates, entries and time stamps
// verify with the Sigstore libraries against Sigstore.TrustRoot.
//
// A Signer signs. What it signs becomes an Artifact: a manifest with its blobs,
// to be pushed under a tag or as a referrer of an image.
//
//	key, err := cosign.NewKey(cosign.ECDSAP256)
//	signer := &cosign.Signer{Key: key}
//	signature, err := signer.Sign(cosign.Payload("registry.example.com/app", digest))
//	artifact := cosign.Tagged(digest, signature)
package cosign
