// Devcluster is a real Kubernetes for development and tests: etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler in one process,
// and kwok, which plays the kubelet of one node, as its child. Everything is
// compiled from Go modules; nothing is downloaded at run time.
//
// The way of a start is the order of up.go: a working directory, etcd, the API
// server, the controllers, the node. When the node is Ready one line,
// "ready KUBECONFIG", goes to standard output; nothing else ever does.
//
// It is no production cluster: etcd does not sync to disk, containers are
// pretended, and a stop throws everything away but the logs.
//
// It is a module of its own so that building and testing the product never
// compiles Kubernetes. The product starts the binary and never imports it.
package main
