// Package podstatus tells, replica by replica, what is served of an object that every replica of Gatehouse works on.
//
// The trouble it ends: N replicas each compile every Executor, and one status has to say what came of it. If all of them
// write it, they overwrite each other, and the last one is believed. So nobody shares a writer here:
//
//	replica 1 ── Reporter ──► its own ExecutorPodStatus ─┐
//	replica 2 ── Reporter ──► its own ExecutorPodStatus ─┼─► Aggregator (the leader) ──► Executor.status
//	replica N ── Reporter ──► its own ExecutorPodStatus ─┘
//
// A report is one small object for each replica and Executor, in Gatehouse's namespace, under a name that both identities
// can be read from (PackName). Its spec says whose it is, by names and UIDs, and never changes; its status says what that
// replica serves, and which process of the pod says so.
//
// The Reporter runs on every replica, and is told by executor.Board what there is to say. It writes only if something
// other than a time differs, conditional on what it read; it makes again what somebody deleted and sets back what
// somebody edited; it deletes the reports on Executors that are gone, and all of its own when the pod ends as it
// should. It knows, and keeps in memory, only the reports of its own pod. A process is Ready once all its reports are
// published: the report of a process before it, in the same pod, does not count as its own.
//
// The status of an Executor is made from the reports anew each time, and from nothing else: the pods that serve, joined
// with the reports that carry their UIDs. A pod that serves and has not reported keeps an Executor from being Ready.
//
// The package compiles nothing and judges nothing: what a replica serves is said by package executor.
package podstatus
