// Package verification measures what verifying an image costs, against the same
// checks made directly with the libraries that verify and a client that keeps
// its connections.
//
// The registry runs in a process of its own, so that what is measured is the
// verifying alone.
package verification
