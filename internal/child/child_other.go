//go:build !linux

package child

import "syscall"

// dieWithParent does nothing where the kernel offers nothing: devcluster ends with its standard input, and a manager
// ends when it can no longer renew its lease there.
func dieWithParent(*syscall.SysProcAttr) {}
