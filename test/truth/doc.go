// Package truth holds Gatehouse to what it says of its replicas: that the status of an Executor is what the replicas
// serve, whoever edits, whoever dies, and whatever is upgraded meanwhile, and that it costs no more than it must.
//
// Replicas are real processes of a Deployment, each with the token of its own pod, on a real API server whose garbage
// collector is off. One story is told to them, step by step, and from its beginning to its end a watcher compares what is
// said with what the replicas report. What was sent is counted from the API server's audit log.
//
// `make test` tells it in small, `make truth` in full: GATEHOUSE_TRUTH=all is the same story with other numbers.
package truth
