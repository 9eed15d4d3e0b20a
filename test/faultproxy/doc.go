// Package faultproxy stands between a manager and the API server and makes the way to it bad: requests are delayed,
// refused, answered by nobody or cut; watches deliver events late, twice or not at all; lists are of yesterday; and
// the manager is killed just before a write of its is passed on, or just after it was made.
//
// A proxy speaks HTTPS on both sides and passes the client's own token on, so the manager behind it has exactly the
// rights that it has without. Give each manager a proxy of its own: then the proxy knows whom it serves, and counts
// what that one sends.
//
// What goes wrong is a script: rules for requests, distortions for watches. Where a rule leaves something to chance,
// chance is a function of the seed, of the rule and of how many requests it has met before; so the same requests meet
// the same faults whenever the same seed is given, and Seed prints the one of a test that has failed.
//
// So that single events can be told apart, the proxy asks the API server for JSON, whatever the client would rather
// have, of watches and of the answers to writes. Clients decode what they are sent, which is how they find out about
// a server that knows JSON only.
package faultproxy
