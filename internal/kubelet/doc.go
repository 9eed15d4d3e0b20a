// Package kubelet runs the replicas of Gatehouse as processes of this machine, each for a real Pod object, for the demo
// and for tests: what a cluster sees of a replica (a pod that starts, becomes Ready, is restarted, ends) is true, and
// what runs can be killed, paused, and put behind a proxy.
//
// It plays the kubelet for the pods of Gatehouse's namespace with a replica's labels: whoever makes them, a Deployment
// or a test, it gives each a process of `gatehouse manager` with the arguments of its container, POD_NAME, POD_NAMESPACE
// and POD_UID, and a token that is bound to the pod. The pod's Ready condition is what the process's /readyz says. A
// process that dies is started again, in the same pod; a pod that is deleted has its process asked to end, and insisted
// after the pod's grace, before the object goes.
//
// No node must run such pods: give them the scheduler Scheduler, whom nobody is, and the finalizer Finalizer, so that
// the API server does not drop a pod without a node before its process has ended. A pod that names a node selector
// fits nowhere here and stays Pending.
package kubelet
