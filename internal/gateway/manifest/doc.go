// Package manifest says what the objects of a gateway look like: Render turns a gateway and the revision that it has
// recorded into a Deployment and whatever else the profile asks for.
//
// It is pure and deterministic: the same gateway and revision give the same objects in the same order, and nothing is
// read or written. It decides neither which revision a gateway runs (package rollout) nor whether an object needs to be
// sent (package gateway).
//
// Every object carries the hash of its inputs: of the parts of the revision and of the gateway's spec that it is made
// of, not of the result. A new version of Gatehouse that renders the same inputs differently therefore changes nothing
// that runs, until an input changes or somebody else alters the object.
package manifest
