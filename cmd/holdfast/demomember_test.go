package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/devbroker"
)

// TestMemberEndsWithItsParent: a member whose parent has gone must not go on writing to a cluster.
func TestMemberEndsWithItsParent(t *testing.T) {
	t.Parallel()
	b, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0", Topics: []devbroker.Topic{
		{Name: "in", Partitions: 1}, {Name: "snapshots", Partitions: 1, Compact: true}, {Name: "out", Partitions: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	spec, err := json.Marshal(map[string]any{
		"Name": "A", "Group": "g", "Input": "in", "Snapshots": "snapshots", "Outputs": "out",
		"Via":    map[string]string{b.Addr(): b.Addr()},
		"Timing": map[string]any{"Session": 6 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), os.Args[0], memberName, "--brokers="+b.Addr())
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(append(spec, '\n')); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r struct{ What, Cause string }
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, r.What)
		if r.What == "restored" { // it holds the partition: its parent goes
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if r.Cause != "" {
			t.Errorf("%s: %s", r.What, r.Cause)
		}
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the member ended with %v", err)
	}
	if len(seen) == 0 || seen[len(seen)-1] != "stopped" {
		t.Errorf("the member reported %v, want \"stopped\" at the end", seen)
	}
}
