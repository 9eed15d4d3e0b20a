// Package house holds the tests that keep the house in order: which room may import which, and that generated files
// are what their sources say.
package house
