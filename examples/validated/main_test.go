package main

import (
	"os"
	"os/exec"
	"testing"
)

// runMain makes the test binary the program itself.
const runMain = "VALIDATED_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestOutput runs the program and compares what it prints with testdata/output.txt.
func TestOutput(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/output.txt")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), runMain+"=1")
	cmd.Stderr = os.Stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}
