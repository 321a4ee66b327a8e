//go:build !linux

package kafkatest

import "os/exec"

// dieWithParent does nothing: only Linux has the parent death signal. Main and the tests' clean-ups
// still stop what they started.
func dieWithParent(*exec.Cmd) {}
