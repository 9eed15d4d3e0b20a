// Package image turns what a person wrote into an image reference that is
// known to be good.
//
// A Reference can only be made by Parse, so a function that takes one never
// asks again whether it is well formed, names a tag or a digest, or has a port
// that exists. Nothing else in the code base takes an image as a bare string.
//
// The grammar is that of the distribution project, narrowed: a tag or a digest
// must be stated, a port must be one that can be dialled, and nothing is
// repaired silently (no upper case is lowered, no white space is trimmed).
// Short names are completed as Docker completes them.
//
// The package does no input or output. What a tag means today is asked in
// package registry; which pods run an image is decided in package rollout.
package image
