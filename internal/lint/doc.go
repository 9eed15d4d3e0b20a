// Package lint checks manifests of Gatehouse's kinds without a cluster.
//
// A manifest is put to the same schema, the same defaults and the same rules
// as at the API server, taken from the definitions that an installation
// applies; then to what the controllers will say of it: that its image reads,
// that its pod template could run, that it compiles. What is legal and weak is a
// warning. Manifests of other kinds are passed over, so that a folder can be
// given as it is.
//
// Every problem has the line at which it is written.
package lint
