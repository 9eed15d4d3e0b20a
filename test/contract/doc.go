// Package contract proves the reconciliation contract line by line: each test is named by the number of the line that
// it holds, C1 to C19, and runs against a real API server with the manager as a process of its own, with no more than
// the roles that config/ gives it. C16 comes with faults.
//
// That nothing happens is proven from the API server's own audit log, around passes that are known to have been made.
package contract
