package kafkatest

import (
	"fmt"
	"os"
	"testing"
)

// Main is the TestMain of a package that uses this one. It runs the tests, stops the shared broker,
// removes its data and exits. In a process that StartChild has started it runs the child instead.
//
// A package works without it: the brokers still die with the test binary, see the package comment.
func Main(m *testing.M, children ...Child) {
	if ran, code := runChild(children); ran {
		os.Exit(code)
	}
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "kafkatest: stop the shared broker:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
