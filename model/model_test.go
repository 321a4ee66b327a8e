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

// A rule switched off must be noticed, by the check named here.
func TestRuleOff(t *testing.T) {
	for _, c := range []struct {
		off, config string
		faults      uint8
		on          string
		bad         uint8
	}{
		{"R1", "state-1key", 1, "", badOffsetAhead},
		{"Fence", "state-1key", 1, "", badStaleWrite},
		{"R2ID", "outputs-1key", 2, "", badStaleWrite},
		{"R2Order", "outputs-1key", 2, "", badStaleWrite},
		{"R4Bind", "outputs-1key", 2, "", badStaleWrite},
		{"R4,R2ID", "outputs-1key", 2, "", badLostUpdate},
		{"R4,Fence", "outputs-1key", 1, "", badLostUpdate},
		{"R4,R13", "outputs-1key", 1, "", badLostUpdate},
		{"R5Abort", "outputs-1key", 1, "", badBelief},
		{"R5Abort", "outputs-1key", 1, "NoBelief", badLostUpdate},
		{"R5Commit", "state-1key", 1, "NoBelief", badOffsetAhead},
		{"R6", "outputs-1key", 1, "", badDisturb},
		{"R9", "state-del", 1, "", badRegress},
		{"R10Off", "state-2key", 1, "", badOffsetAhead},
		{"R12Init,Fence", "outputs-1key", 1, "", badLostUpdate},
		{"R12Init,Sweep", "outputs-1key", 1, "", badStuck},
		{"R12Init,R12Stab,Table", "outputs-1key", 1, "", badOffsetFell},
		{"R12HW", "outputs-1key", 1, "", badStop},
		{"R12HW,Table", "outputs-1key", 1, "", badOffsetAhead},
		{"R12Order", "outputs-1key", 1, "", badStop},
		{"R12Order,Table", "outputs-1key", 1, "", badOffsetAhead},
		{"Table", "state-del", 1, "", badCameBack},
		{"R13", "outputs-1key", 1, "", badStaleWrite},
		{"R14Tag", "state-1key", 1, "Queue", badState},
		{"R17Two", "state-1key", 1, "", badOffsetAhead},
		{"R17Min", "state-2key", 1, "", badOffsetAhead},
		{"R18", "state-1key", 1, "", badOutputLost},
		{"R20", "state-del", 1, "", badCameBack},
		{"R20Known", "state-del", 1, "", badCameBack},
		{"Sweep", "state-1key", 1, "", badStuck},
		{"Regrant", "outputs-1key", 1, "", badStuck},
		{"", "outputs-1key", 2, "TV1", badOffsetAhead},
		{"R2Join", "kip848-outputs", 2, "", badStaleWrite},
		{"R23", "latest-state", 1, "", badTwoStarts},
		{"Table", "accident-state", 1, "", badOffsetAhead},
		{"Table", "accident-del", 1, "", badCameBack},
	} {
		r := Run(config(t, c.config, c.faults, c.off, c.on), 5e6, false)
		if r.Count[c.bad] == 0 {
			t.Errorf("%s off %s on: not noticed by %q: %v", c.off, c.on, badName[c.bad], r.Count)
			continue
		}
		if n := len(r.Trace(r.First[c.bad])); n != r.Dist[c.bad] {
			t.Errorf("%s: trace has %d steps, want %d", c.off, n, r.Dist[c.bad])
		}
	}
}

// What repairs a finding must repair it.
func TestRepairs(t *testing.T) {
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
