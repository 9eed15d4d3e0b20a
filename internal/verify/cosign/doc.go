// Package cosign judges signatures of the Sigstore project: by a public key, or
// keyless by an identity that a certificate authority vouches for.
//
// It reads simple-signing signatures, under the tag sha256-….sig or as
// referrers, and Sigstore bundles of version 0.3, with a message signature or an
// envelope. Each becomes an entity, which sigstore-go verifies: there is one
// judge, and it is that library. What is found here only adds to its demands:
// the signature must be over exactly the digest that was asked about, nothing
// may read in two ways, and everything is bounded. A signature that does not
// verify is looked at again, a step at a time, to say why.
//
// It never asks the network: the trust root is given, log entries and time
// stamps come with the signature. It never takes a key hint, an annotation or a
// docker-reference for proof.
package cosign
