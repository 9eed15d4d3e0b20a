// Package fleet makes what tests of the whole product are about: an installation, and on it a profile, a release and
// the gateways that follow it, with an image that a registry in this process serves. It knows how to wait for what a
// fleet comes to, and what to ask of it afterwards.
//
// The installation is that of config/: the manager that runs on it has exactly its roles.
package fleet
