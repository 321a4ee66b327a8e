package main

import (
	"strings"
	"testing"
)

func config(t *testing.T, name string, faults uint8, off, on string) *Config {
	t.Helper()
	for _, c := range Configs() {
		if c.Name != name {
			continue
		}
		c.Faults, c.Retake, c.Probe = faults, false, false
		for _, r := range split(off) {
			set(&c, r, false)
		}
		for _, r := range split(on) {
			set(&c, r, true)
		}
		return &c
	}
	t.Fatalf("no configuration %s", name)
	return nil
}

// With every rule on no check fails and every state recovers, and the rare steps were really taken.
func TestEveryRuleOn(t *testing.T) {
	t.Parallel()
	rare := []string{"read-back: aborted", "read-back: committed", "read-back: another owner's", "restore: c < p",
		"late EndTxn(commit) arrives", "late InitProducerID arrives", "late Produce arrives", "late TxnOffsetCommit arrives",
		"a new token: the same effects go again", "TxnOffsetCommit refused: unknown member", "still assigned: granted anew",
		"transaction timeout", "EndTxn(commit) ok, answer lost, client retries", "revoke budget spent: gone", "drained: gone"}
	// Under KIP-848 an old generation is accepted while the partition stays, and a silent rejoin needs two faults.
	secondFault := map[string]bool{"a new token: the same effects go again": true, "still assigned: granted anew": true}
	for _, c := range Configs() {
		for _, on := range []string{"", "Lenient", "Retake"} {
			c := config(t, c.Name, 1, "", on)
			c.Seen = map[string]int{}
			r := Run(c, 5e6, false)
			if !r.Full || r.Violated() {
				t.Errorf("%s %s: full %v, %v", c.Name, on, r.Full, r.Count)
			}
			for _, what := range rare {
				if c.Seen[what] == 0 && on == "" && !c.Accident && !(c.KeepID && secondFault[what]) {
					t.Errorf("%s: never seen: %s", c.Name, what)
				}
			}
		}
	}
	if testing.Short() {
		return
	}
	for _, name := range []string{"state-1key", "outputs-1key"} {
		if r := Run(config(t, name, 2, "", ""), 5e6, false); !r.Full || r.Violated() {
			t.Errorf("%s with two faults: full %v, %v", name, r.Full, r.Count)
		}
	}
}

// A rule switched off must be noticed, by the check that Traces names, and after as many steps.
func TestRuleOff(t *testing.T) {
	t.Parallel()
	for _, c := range Traces {
		r := Run(config(t, c.Config, c.Faults, c.Off, c.On), 5e6, false)
		if r.Count[c.Bad] == 0 {
			t.Errorf("%s off %s on: not noticed by %q: %v", c.Off, c.On, badName[c.Bad], r.Count)
			continue
		}
		if n := len(r.Trace(r.First[c.Bad])); n != r.Dist[c.Bad] || n != c.Steps {
			t.Errorf("%s off, %s on, %s: the trace has %d steps and is found at %d, the table says %d", c.Off, c.On, c.Config, n, r.Dist[c.Bad], c.Steps)
		}
	}
}

// What repairs a finding must repair it.
func TestRepairs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ config, off, on string }{
		{"outputs-1key", "Sweep", "Retake"},
		{"outputs-1key", "", "TV1,TV1Init"},
	} {
		if r := Run(config(t, c.config, 2, c.off, c.on), 5e6, false); !r.Full || r.Violated() {
			t.Errorf("%s off %s on %s: %v", c.config, c.off, c.on, r.Count)
		}
	}
}

// As the rules stand, two processes can take the producer epoch from each other for ever without a commit or a refusal
// by the group between; if each asks the group before it initialises, every run ends once faults stop, and since no
// state is stuck, it ends well, whatever the scheduling.
func TestEndless(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"state-1key", "outputs-1key"} {
		if n, cycle := Run(config(t, name, 1, "", ""), 5e6, false).Endless(); n == 0 || len(cycle) == 0 {
			t.Errorf("%s: the duel is gone", name)
		}
		for _, on := range []string{"Probe", "Probe,Retake"} {
			r := Run(config(t, name, 1, "", on), 5e6, false)
			if n, _ := r.Endless(); n != 0 || r.Violated() {
				t.Errorf("%s with %s: %d endless states, %v", name, on, n, r.Count)
			}
		}
	}
}

// The representative of a state does not depend on the names of processes and transactions.
func TestCanon(t *testing.T) {
	t.Parallel()
	r := Run(config(t, "state-2key", 1, "", ""), 20000, false)
	for i := range r.s.states {
		s := r.s.states[i]
		if s.canon() != s || s.swapped().canon() != s {
			t.Fatalf("state %d is not its own representative", i)
		}
		for _, id := range s.ids() {
			if *id != 0 {
				*id = 14 - *id
			}
		}
		if s.canon() != r.s.states[i] {
			t.Fatalf("state %d: representative depends on ids", i)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	c := Config{Input: []Rec{{Key: 0}, {Key: 0, Del: true}, {Key: 0}}}
	for end, want := range []Val{0, mkVal(0, 1, kindLive), mkVal(1, 0, kindDeleted), mkVal(2, 4, kindLive)} {
		if got := c.want(&State{}, 0, end); got != want {
			t.Errorf("fold up to %d: %x, want %x", end, got, want)
		}
	}
	if badCount != len(badName) || strings.Contains(strings.Join(badName[:], "|"), "||") {
		t.Error("names of violations")
	}
}
