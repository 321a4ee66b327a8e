//go:build synctests

package virtual

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/rule"
)

// bites are rules whose loss the seeds have to find, each by the invariant that it is for.
var bites = []struct {
	off  []rule.Name
	want string
	fits func(setting) bool // the seeds whose world has the rule
}{
	{[]rule.Name{rule.AppliedSkip}, "I2", flows},
	{[]rule.Name{rule.Holds}, "I1", persisting},
	{[]rule.Name{rule.TwoWriteDelete}, "I2", persisting},
	{[]rule.Name{rule.OutputsFirst}, "I4", persisting},
	{[]rule.Name{rule.OutputsInside}, "I4", whole},
	{[]rule.Name{rule.ReadBack}, "I3", fenced},
	{[]rule.Name{rule.FencedBinding, rule.Takeover}, "I3", fenced},
}

func flows(s setting) bool      { return !s.Pipe }
func whole(s setting) bool      { return s.Pipe || s.Guarantee == holdfast.FencedOutputs }
func fenced(s setting) bool     { return s.Guarantee != holdfast.Unfenced }
func persisting(s setting) bool { return !s.Pipe && s.Guarantee != holdfast.FencedOutputs }

// TestSeedsBite switches rules off and expects that one of the first 200 seeds is found wrong, with the
// invariant that the rule is for: seeds that find nothing would else say nothing.
func TestSeedsBite(t *testing.T) {
	t.Parallel()
	for _, b := range bites {
		t.Run(fmt.Sprint(b.off), func(t *testing.T) {
			t.Parallel()
			tried := 0
			for seed := uint64(1); seed <= 200; seed++ {
				p := planOf(seed)
				if !b.fits(p.setting) {
					continue
				}
				tried++
				watch := watchdog(seed)
				res := runPlan(t, p, newStates(), b.off...)
				watch.Stop()
				if slices.ContainsFunc(res.found, func(v holdfasttest.Violation) bool { return v.Invariant == b.want }) {
					t.Logf("%v off: %s by seed %d, the %d. whose world has the rule", b.off, b.want, seed, tried)
					return
				}
				for _, v := range res.found {
					t.Logf("%v off: seed %d: %v", b.off, seed, v)
				}
			}
			t.Errorf("%v off: none of %d seeds was found wrong by %s", b.off, tried, b.want)
		})
	}
}
