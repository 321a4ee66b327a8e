package kafkatest

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the child when this process ends in any way: a test binary that
// runs into its -timeout would leave JVMs behind that keep their ports.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
