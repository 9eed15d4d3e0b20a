// Package ratify turns Ratify's manifests into Gatehouse's.
//
// It reads Executor and NamespacedExecutor of version v2alpha1 and returns the
// Executors that ask for the same, with the Secrets that they need. Nothing
// that was refused before is admitted after: what cannot be carried over
// without loosening it is an error, and the rest that cannot be carried over is
// a warning.
package ratify
