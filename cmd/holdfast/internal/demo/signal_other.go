//go:build !unix

package demo

import (
	"errors"
	"os"
	"os/exec"
)

var errSignals = errors.New("the demo stops and wakes processes with signals, which this system does not have")

func kill(p *os.Process) error    { return p.Kill() }
func terminate(*os.Process) error { return errSignals }
func suspend(*os.Process) error   { return errSignals }
func wake(*os.Process) error      { return errSignals }

func detach(*exec.Cmd) {}
