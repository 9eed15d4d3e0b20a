// Package gateway brings every GatewayInstance closer to what it was given. A pass is five steps, a file each:
//
//	decide   what the gateway may take from its release (package rollout), or what it keeps, or adopts; what its
//	         namespace's own Executors refuse (verify) it does not take
//	render   that revision and the tenant's own spec into objects (package manifest)
//	compare  them with what lives: what has the same inputs and has not been touched since is sent nothing
//	record   what will change, in status, before anything moves
//	apply    what differs, conditional on the version that was read
//	observe  what runs, by kstatus rules
//
// Two clusters take part. The hub holds gateways, releases, profiles and revisions; the local cluster holds what runs.
// They may be one.
//
// The package writes no spec that a person owns, takes over no object that is not the gateway's unless a person says
// so, and relies on no memory: what it remembers of its own writes tells it that a cache is behind, and nothing else.
package gateway
