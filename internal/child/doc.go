// Package child runs processes of this one's own: devcluster, and managers. They do not outlive it: they are stopped, and
// where the operating system can do so killed when this one is killed.
package child
