// Package notation verifies signatures of the Notary Project.
//
// A Verifier is one verifier of an Executor with its trust material, all of it in
// memory: no file is read, no plugin is run. It judges a signature in the order in
// which trust is built, and stops at the first fault:
//
//	the envelope    within bounds, read in one way only, and unharmed
//	the subject     it signs this digest, and needs nothing that is not here
//	the signer      its chain leads to a trust store, its subject is trusted
//	the time        neither signature nor certificates had expired when it counts
//	revocation      asked of the certificates' issuers, by OCSP and CRL
//
// Only the last step uses the network, so nothing is ever fetched from an address
// that a certificate names before that certificate is vouched for.
//
// The cryptography and the formats are notation-core-go's and tspclient-go's. The
// order is ours, as notation-go's own verifier takes no clock, logs an untrusted
// signer at level audit and goes on to ask for its revocation, and ignores
// critical attributes that it does not know. What notation-go refuses at level
// strict is never passed here at Strict; a test holds the two side by side.
//
// The levels differ in what they tolerate, which then is a warning:
//
//	                           Strict     Permissive   Audit
//	integrity, authenticity    fails      fails        fails
//	revoked                    fails      fails        fails
//	signature expired          fails      warning      warning
//	certificates, time stamp   fails      warning      warning
//	revocation unknown         as Revocation says      warning
package notation
