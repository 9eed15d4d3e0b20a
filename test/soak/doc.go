// Package soak leaves Gatehouse out in the rain: two hundred gateways of several tenants, on which everybody edits
// everything at random, while requests fail, answers are lost, events do not come and the manager is killed now and
// then. When it is over, everything must be as the specs say, nothing may be sent any more, and the process must hold
// no more than a new one would.
//
// The cluster is an API server alone. The test plays what else there would be: the Deployment controller, which is
// sometimes slow and whose pods are sometimes not ready, and the garbage collector.
//
// What everything should have come to is computed here from the specs, by rules of the test's own; nothing of the
// product is asked.
//
// `make soak` is an hour of it, and `make test` two minutes; SOAK=20m chooses another length. What is left to chance is
// the seed's: GATEHOUSE_SEED repeats the edits and the weather of a run.
package soak
