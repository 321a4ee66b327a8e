package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/devbroker"
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

// TestTwiceOnThreePartitions runs the program twice on a topic of three partitions: each run ends when it has folded its
// six payments, whichever partition they are in, and the balances go on.
func TestTwiceOnThreePartitions(t *testing.T) {
	t.Parallel()
	broker, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0", Topics: []devbroker.Topic{{Name: "payments", Partitions: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, ends := range [][]string{
		{"ann      +40  balance   790", "bob     -500  balance     0", "cid      +75  balance    75"},
		{"ann      +40  balance  1580", "bob     -500  balance     0", "cid      +75  balance   150"},
	} {
		cmd := exec.CommandContext(t.Context(), self, "-brokers", broker.Kafka().Brokers[0])
		cmd.Env = append(os.Environ(), runMain+"=1")
		cmd.Stderr = os.Stderr
		got, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		text := withoutRepeats(string(got))
		if n := strings.Count(text, "balance "); n != 6 {
			t.Errorf("%d payments were folded, want 6:\n%s", n, text)
		}
		for _, end := range ends {
			if !strings.Contains(text, end) {
				t.Errorf("it does not print %q:\n%s", end, text)
			}
		}
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
