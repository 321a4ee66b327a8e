package demo

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's Ctrl-C from the members, which the parent ends in its own order. The
// death signal ends a member that is stopped, and so does not see that its parent has gone.
func detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
