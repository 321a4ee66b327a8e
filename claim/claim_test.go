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
		cs = append(cs, claim.Flow(claim.FencedState, v)...)
		cs = append(cs, claim.Flow(claim.Unfenced, v)...)
	}
	return cs
}

func TestEveryClaimIsWhole(t *testing.T) {
	t.Parallel()
	cs := all()
	if len(cs) != 16 {
		t.Fatalf("%d claims, want 16", len(cs))
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

func TestFlow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		guarantee string
		version   int
		weaker    bool
	}{
		{claim.FencedState, 0, true}, {claim.FencedState, 1, true}, {claim.FencedState, 2, false},
		{claim.Unfenced, 1, false}, {claim.Unfenced, 2, false},
	} {
		got := false
		for _, c := range claim.Flow(tc.guarantee, tc.version) {
			got = got || c.Weaker != ""
		}
		if got != tc.weaker {
			t.Errorf("%s on transaction.version %d: weaker %v, want %v", tc.guarantee, tc.version, got, tc.weaker)
		}
	}
	// A guarantee that no component of this version offers has no claim to print.
	if cs := claim.Flow("FencedOutputs", 2); cs != nil {
		t.Errorf("FencedOutputs claims %v", cs)
	}
	if cs := claim.Flow(claim.Unfenced, 2); !strings.Contains(cs[0].Statement, "CAN overwrite") {
		t.Error("Unfenced does not say that a stale owner can overwrite")
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
