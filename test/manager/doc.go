// Package manager runs `gatehouse manager` as it is run in a cluster: a process of its own, with a service account's
// token and nothing else. Tests start it, kill it, stop it, and ask it how many passes it has made.
//
// The binary is built from the source tree, so it is never an old one; GATEHOUSE_BINARY names another.
package manager
