// Package replicas runs many managers beside each other as a cluster does: each is a process of its own with a real Pod
// object, a token that is bound to it, and a Ready condition that is what its /readyz says; a Deployment with the
// manifests' own template makes the pods, or a test makes them one by one. A test deletes pods, evicts and scales them
// as people do, and does to the processes what machines do: kills, pauses and loses them, or makes the way of one to the
// API server bad.
//
// The kubelet is internal/kubelet, which the demo plays too.
package replicas
