// Package revision holds what a release was accepted as: an image by its digest and the profile that says how it is
// run, together and immutable.
//
// A Revision is everything that alters a pod. Its name is made of the release and a hash of the content, so the same
// content has the same name whatever tag it was resolved from and however the profile was written down; a gateway
// that compares names compares content. It is stored as an apps/v1 ControllerRevision, which the API server itself
// keeps from being changed.
//
// New is the only way to make one from a profile, and it refuses everything that could not run: package release turns
// its error into a status. FromControllerRevision is the only way to read one back, and it refuses content that does
// not hash to its name. Package gateway renders workloads from Template and Profile.
//
// The package does no input or output, and it decides neither who gets a revision (package rollout) nor how long it
// is kept (package release).
package revision
