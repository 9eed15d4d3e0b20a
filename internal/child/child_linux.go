package child

import "syscall"

// dieWithParent has the kernel kill the process when the demo dies, however it dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
