// Package bench measures Gatehouse: whole rollouts over fleets of thousands, by the real manager on a real API server,
// beside a floor that is measured in the same run. The floor is a bare client that sends the same number and kinds of
// writes at the same concurrency, so that a slow machine is slow for both and the ratio says something about Gatehouse.
//
// Nothing but an API server runs. The bench plays the Deployment controller, with one status write for each change of a
// Deployment; no pod runs. What is measured are Go benchmarks, which `make bench` runs and `go test` does not; the one
// test in here sees on a small fleet that they work.
package bench
