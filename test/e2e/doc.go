// Package e2e proves what a person who installs and uses Gatehouse is promised: the installation applies, the words and
// columns say what is so, trouble of one registry, profile or tenant stays its own, and an API server that goes away is
// survived.
package e2e
