// Package status tells people what each replica of Gatehouse serves of each Executor: the table of `gatehouse status`.
//
// It reads and never writes. The status of an Executor is the source: the leader has made it of what the replicas
// report. Where it may, it reads the pods of the installation as well, to name those that do not serve, and the reports
// of single replicas, for errors in full and for installations of more replicas than a status lists; where it may not,
// it says so in a line and goes on without. What a question came to is a value (List), made by a pure function of what
// was read (Build), and printed as a table, JSON or YAML. With a watch, the API server's events keep what was read
// current, and what was missed is listed anew.
//
// Texts in a status are anybody's who may write one. They are cleaned when the List is made, before anything prints
// them.
package status
