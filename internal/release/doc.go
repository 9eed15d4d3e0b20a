// Package release turns the edit of a GatewayRelease into a window that moves over its fleet.
//
// A pass is accept → resolve → verify → record → roll out, each step in the file of its name. Accept reads the spec and
// the profile; what only a person can cure ends there, and whatever was accepted before goes on. Resolve asks package
// registry for the digest, and verify has package executor judge every image of the pods; neither waits for an answer.
// What verifies is recorded, and what was recorded before is verified as well before it is given to anybody. Record keeps the revision (image and profile content together) as
// a ControllerRevision before any status names it. Roll out lets package rollout, which is pure, move the window in
// status.rollout over the fleet as it is seen. One conditional status patch ends the pass, and only if it says
// something new. Prune deletes what that has left behind in the history, one pass later, and no sooner than the API
// server says that nothing needs it.
//
// The package never touches a gateway: each takes what the window gives it, in package gateway. It remembers nothing
// between passes; the results of package registry are a cache, and a generation that was resolved says so in its
// status.
package release
