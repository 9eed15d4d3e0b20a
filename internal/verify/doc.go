// Package verify judges an image by its signatures.
//
// An Engine is one compiled Executor: stores, in which signatures are found;
// verifiers, which judge them; and a policy, which decides from what the
// verifiers say. Given a subject, a repository and a digest, it returns a
// Report: every signature that was looked at, what each verifier made of it and
// why, and the decision in words that a person can act on.
//
// There are three outcomes, never two. Passed and Failed are decided. Whatever
// kept a decision from being made, a registry that did not answer or a bound
// that was exceeded, is Undecided, and nothing unverified is admitted on it.
//
// The subpackages notation and cosign hold the verifiers, policy the decision.
// All requests to registries are made by package registry.
package verify
