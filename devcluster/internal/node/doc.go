// Package node plays the one node of the cluster: it starts kwok, which
// answers for the kubelet and moves pods through their life by Stage objects,
// and it creates the Node.
//
// kwok runs as a child process, this same binary started again: a Stage whose
// jq expression does not parse passes the API and then makes kwok panic, and
// that must not take the API server with it. The Supervisor starts it anew.
package node
