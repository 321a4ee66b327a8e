package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// runMain makes the test binary the program itself.
const runMain = "LEDGER_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestOutput runs the program as the README shows it, and compares what it prints with what the README
// says that it prints.
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
	if text := withoutRepeats(string(got)); text != string(want) {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

// withoutRepeats drops lines that were printed before: the fold prints, and what a fold does besides
// its state is at-least-once.
func withoutRepeats(text string) string {
	var out strings.Builder
	shown := map[string]bool{}
	for line := range strings.Lines(text) {
		if !shown[line] {
			shown[line] = true
			out.WriteString(line)
		}
	}
	return out.String()
}
