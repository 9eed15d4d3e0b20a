// Package policy decides from signers whether an image is signed enough.
//
// A Policy is made of groups. A group is met when at least Min of its members
// are, and a member is a verifier, met by one signer whom it accepts, or an
// earlier group. The last group decides. Without groups every verifier must
// have accepted a signer.
//
// Thresholds count signers, not signatures: all the places that a group counts,
// down through the groups that are its members, are filled by signers who
// differ. A signer whom two verifiers accept fills one place. So two of two
// means two people, and a key that is listed twice opens nothing twice. A policy
// without groups has no threshold: there each verifier is asked by itself.
//
// A decision is made as soon as it is certain, and not before. Evidence says of
// each verifier whom it has accepted and whether more may come. Satisfied is
// certain from those who signed. Unsatisfiable is certain even if every
// verifier that is open came to accept as many others as one likes. Between the
// two the policy is Open.
//
// The package does no input or output and knows nothing of signatures.
package policy
