// Package app is the composition root: configuration in, a running manager out. It is the only room that knows every
// other; it wires clients, caches, controllers, leader election, probes, metrics and traces together and decides
// nothing about releases or gateways itself.
package app
