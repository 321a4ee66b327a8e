//go:build unix

package demo

import (
	"os"
	"syscall"
)

func kill(p *os.Process) error      { return p.Signal(syscall.SIGKILL) }
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
func suspend(p *os.Process) error   { return p.Signal(syscall.SIGSTOP) }
func wake(p *os.Process) error      { return p.Signal(syscall.SIGCONT) }
