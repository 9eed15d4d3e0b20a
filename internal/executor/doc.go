// Package executor turns Executor objects into engines that verify images, and keeps the set of them that this replica
// serves from.
//
// Compile makes an engine of a spec and of what the Secrets and ConfigMaps hold that it names. It reads nothing and knows
// no cluster; `gatehouse verify` and `gatehouse lint` use it as the controller does.
//
// Live is the set in force. A lookup takes no lock: it finds, by the most specific scope, who judges an image. It tells
// unmatched from matched without a build, which cannot decide, and from not ready, when nobody can tell yet.
//
// The controller runs on every replica. Each Executor is read, compiled and swapped into the set alone, so that a broken
// one delays and changes no other. A spec that does not build leaves the last good one serving, which is stored as a
// ControllerRevision for replicas that start later. What a build trusts is another matter: a key or certificate that is
// changed or certainly gone is so at once, and one that merely cannot be read is kept for maxStale. The leader alone
// writes, and nothing but stored specs.
//
// Board holds what this replica would say of each Executor. Package podstatus publishes that, and makes the status.
//
// A Witness asks the API server whether what is served is what there is, before something new moves by it.
//
// The package judges no image: that is what package verify does with what is compiled here.
package executor
