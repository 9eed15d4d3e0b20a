// Package cluster gives tests a real Kubernetes. It starts bin/devcluster as a
// child process, one for each test package, or uses the cluster that
// GATEHOUSE_TEST_KUBECONFIG names. It never skips: a test that needs a cluster
// and has none fails and says which command builds one.
//
//	var shared *cluster.Cluster
//
//	func TestMain(m *testing.M) {
//		cluster.Main(m, cluster.Options{Audit: true}, &shared)
//	}
//
// Beside credentials it offers what tests ask of a cluster: manifests applied,
// a service account's or another user's view, what was written and by whom
// (from the server's own audit log), and images whose pods behave badly.
//
// It does not import the module devcluster, whose packages take minutes to
// compile.
package cluster
