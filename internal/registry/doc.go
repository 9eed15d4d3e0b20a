// Package registry asks OCI registries what a reference names today.
//
// It is the only room with a network client, so everything that a peer can do
// to us is met here: one that is down, that drips, that lies about a size or a
// digest, that redirects in a circle or to somebody else, that asks to be left
// alone for a while. Every call has a deadline, every body a limit; what came
// is believed only when it hashes to what was said.
//
// A Client makes one attempt. A Pool makes attempts for controllers: bounded,
// off their workers, coalesced per reference and access, fair among
// registries; it keeps the latest result of each, and its completion wakes the
// objects that asked. Results are a cache: losing them costs time, nothing
// else.
//
// Credentials go to the registry they are for and to no other host, over TLS
// alone, and stand in no error, log or dump. The text of an Error is the same
// for the same trouble and holds no word of the peer, so it can stand in a
// status; what the peer said is in its Detail, quoted and cut, for the log.
package registry
