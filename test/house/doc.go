// Package house holds the tests that keep the house in order: which room may import which, that generated files
// are what their sources say, and that the README promises nothing that no test holds.
package house
