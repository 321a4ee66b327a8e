package claim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/claim"
)

func all() []claim.Claim {
	var cs []claim.Claim
	for _, v := range []int{0, 1, 2, 3} {
		for _, guarantee := range []string{claim.FencedState, claim.FencedOutputs, claim.Unfenced} {
			cs = append(cs, claim.Flow(guarantee, v)...)
			cs = append(cs, claim.DeadLetters(claim.ComponentFlow, guarantee, v)...)
		}
		cs = append(cs, claim.Pipe(v)...)
		cs = append(cs, claim.DeadLetters(claim.ComponentPipe, "", v)...)
	}
	return cs
}

func TestEveryClaimIsWhole(t *testing.T) {
	t.Parallel()
	cs := all()
	if len(cs) != 44 {
		t.Fatalf("%d claims, want 44", len(cs))
	}
	for _, c := range cs {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		for _, part := range []string{c.Hop, c.Guarantee, c.Statement, c.Crash, c.Boundary, c.Weaker} {
			if !strings.Contains(c.String(), part) || !strings.Contains(claim.Table{c}.Markdown(), part) {
				t.Errorf("%s %s is printed without %q", c.Component, c.Guarantee, part)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	whole := claim.Claim{Hop: "a → b", Component: "c", Statement: "s", Crash: "x", Boundary: "b"}
	with := func(f func(*claim.Claim)) claim.Claim {
		c := whole
		f(&c)
		return c
	}
	for name, tc := range map[string]struct {
		c    claim.Claim
		want string
	}{
		"whole":                 {c: whole},
		"no hop":                {c: with(func(c *claim.Claim) { c.Hop = "" }), want: "hop"},
		"no component":          {c: with(func(c *claim.Claim) { c.Component = "" }), want: "component"},
		"no statement":          {c: with(func(c *claim.Claim) { c.Statement = " " }), want: "statement"},
		"no crash":              {c: with(func(c *claim.Claim) { c.Crash = "" }), want: "crash"},
		"no boundary":           {c: with(func(c *claim.Claim) { c.Boundary = "" }), want: "boundary"},
		"slogan":                {c: with(func(c *claim.Claim) { c.Statement = "Exactly-once" }), want: "without a boundary"},
		"slogan without hyphen": {c: with(func(c *claim.Claim) { c.Boundary = "exactly once Kafka" }), want: "without a boundary"},
		"slogan beside a qualified one": {c: with(func(c *claim.Claim) { c.Statement = "exactly-once inside Kafka, so exactly-once" }),
			want: "without a boundary"},
		"qualified": {c: with(func(c *claim.Claim) { c.Statement = "exactly-once inside Kafka" })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.c.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("Validate: %v, want %q", err, tc.want)
			}
		})
	}
}

// transactional are the claims that a transaction is behind.
func transactional(version int) map[string][]claim.Claim {
	return map[string][]claim.Claim{
		"state":                    claim.Flow(claim.FencedState, version)[:1],
		"state with outputs":       claim.Flow(claim.FencedOutputs, version)[:1],
		"outputs":                  claim.Flow(claim.FencedOutputs, version)[1:],
		"pipe":                     claim.Pipe(version),
		"dead letters of outputs":  claim.DeadLetters(claim.ComponentFlow, claim.FencedOutputs, version),
		"dead letters of the pipe": claim.DeadLetters(claim.ComponentPipe, "", version),
	}
}

// others are those that no transaction is behind.
func others(version int) map[string][]claim.Claim {
	return map[string][]claim.Claim{
		"outputs beside the state": claim.Flow(claim.FencedState, version)[1:],
		"unfenced":                 claim.Flow(claim.Unfenced, version),
		"dead letters of state":    claim.DeadLetters(claim.ComponentFlow, claim.FencedState, version),
		"dead letters, unfenced":   claim.DeadLetters(claim.ComponentFlow, claim.Unfenced, version),
	}
}

func TestTransactionVersionWeakens(t *testing.T) {
	t.Parallel()
	for _, version := range []int{0, 1, 2, 3} {
		for name, cs := range transactional(version) {
			for _, c := range cs {
				if got, want := c.Weaker != "", version < 2; got != want {
					t.Errorf("%s on transaction.version %d: weaker %v, want %v", name, version, got, want)
				}
				if !strings.Contains(c.Boundary, "isolation.level=read_committed") {
					t.Errorf("%s does not say that its readers must use read_committed", name)
				}
			}
		}
		for name, cs := range others(version) {
			for _, c := range cs {
				if c.Weaker != "" {
					t.Errorf("%s on transaction.version %d is weaker: %s", name, version, c.Weaker)
				}
				if strings.Contains(c.Statement, "exactly-once") {
					t.Errorf("%s claims %s", name, c.Statement)
				}
			}
		}
	}
	if cs := claim.Flow(claim.Unfenced, 2); !strings.Contains(cs[0].Statement, "CAN overwrite") {
		t.Error("Unfenced does not say that a stale owner can overwrite")
	}
}

// What no component offers has no claim to print.
func TestUnknownIsNotClaimed(t *testing.T) {
	t.Parallel()
	for name, cs := range map[string][]claim.Claim{
		"guarantee":                 claim.Flow("FencedEverything", 2),
		"dead letters' component":   claim.DeadLetters("landing", "", 2),
		"dead letters' guarantee":   claim.DeadLetters(claim.ComponentFlow, "", 2),
		"dead letters of no pipe's": claim.DeadLetters(claim.ComponentPipe, claim.FencedState, 2),
	} {
		if cs != nil {
			t.Errorf("%s: %v", name, cs)
		}
	}
}

func ExampleFlow() {
	for _, c := range claim.Flow(claim.FencedState, 2) {
		fmt.Println(c.Hop, "|", strings.Split(c.Statement, ";")[0])
	}
	// Output:
	// topic → state | the state of a key is the result of its records up to its applied offset, each applied once, in offset order
	// topic → topic | outputs are at-least-once: each is acknowledged before the snapshot that covers its record can commit, and a record that is folded again after a crash emits again
}
