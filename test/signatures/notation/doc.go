// Package notation is a certificate authority whose signers make signatures of
// the Notary Project, and which makes RFC 3161 time stamps and answers for
// revocation. Everything is made by the Notary Project's own libraries and by
// independent ones, never by what verifies it.
//
// It holds its keys in memory and forgets them: it signs for tests, benchmarks
// and the demo, and nothing that anybody should trust.
//
//	ca, err := notation.New(notation.Options{})
//	signer, err := ca.Issue(notation.Leaf{})
//	signature, err := signer.Sign(subject, notation.Signing{})
//
// A signature is pushed as its Blobs and then its Manifest, which is a referrer
// of subject. ca.PEM() is what a trust store holds.
package notation
