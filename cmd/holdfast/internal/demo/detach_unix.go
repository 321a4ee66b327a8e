//go:build unix && !linux

package demo

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's Ctrl-C from the members, which the parent ends in its own order.
func detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
