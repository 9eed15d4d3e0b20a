// Package demo shows Gatehouse at work on a real Kubernetes, and checks what it shows.
//
// A demo is a list of steps. Each acts as a person would, through the Kubernetes API, and then watches until what it
// promises holds; a step that was not seen to hold in time fails, and with it the demo. The control plane (devcluster)
// and the manager are child processes, the registry lives in this one. The manager has the rights of its ServiceAccount
// and no more; tenants create their gateways under their own names.
//
// What a step claims, it has seen itself: the fleet is observed through watches of the workloads, in the order in
// which the API server committed the changes, and never through the status that Gatehouse writes about itself alone.
//
// On a cluster that somebody has, the demo creates everything under new names, never takes over or changes what is
// there, and removes what it has created.
package demo
