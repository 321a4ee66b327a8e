package crash

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/trial"
)

// sabotages are rules that are switched off, each with the crash point that then leaves a defect, and the
// invariant by which it shows.
var sabotages = []struct {
	off       rule.Name
	component string
	pair      Pair
	loose     bool // whatever the first request is
	ready     func(*run)
	invariant string
}{
	{off: rule.Holds, component: "FencedState", pair: Pair{Fold, "EndTxn", produceOutputs}, invariant: "I1"},
	{off: rule.AppliedSkip, component: "FencedState", pair: Pair{Fold, "EndTxn", produceOutputs}, invariant: "I2"},
	// The outputs go beside the transaction, in any order with its requests: they have to be there before
	// the blow, to be there again after it.
	{off: rule.OutputsInside, component: "FencedOutputs", pair: Pair{Commit, "TxnOffsetCommit", "EndTxn"}, loose: true, invariant: "I4",
		ready: outputsSent},
	{off: rule.OutputsInside, component: "pipe", pair: Pair{Commit, "TxnOffsetCommit", "EndTxn"}, loose: true, invariant: "I4", ready: outputsSent},
}

func outputsSent(r *run) {
	r.wait("outputs", func() bool { return r.tr.Answers(produceOutputs) > 0 })
}

// sabotage shows that the sweep can fail: with a rule switched off the verdict finds a defect after a crash
// at a place where the sweep finds none. A commit is tested with one of them, a night with all.
func sabotage(t *testing.T, pairs map[string][]found) {
	for i, s := range sabotages {
		if !everything() && int(hash(trial.Commit(t)))%len(sabotages) != i {
			continue
		}
		t.Run(s.component+" without "+string(s.off), func(t *testing.T) {
			t.Parallel()
			c := components[slices.IndexFunc(components, func(c component) bool { return c.name == s.component })]
			c.app.Off = []rule.Name{s.off}
			at := slices.IndexFunc(pairs[s.component], func(p found) bool { return p.Pair == s.pair })
			if at < 0 {
				t.Fatalf("the recorder has not seen %v", s.pair)
			}
			p := pairs[s.component][at]
			if s.loose {
				p.First = ""
			}
			r, _ := strike{c: c, point: point{found: p}, blow: kill, ready: s.ready}.run(t)
			vs := r.f.Verdict()
			if !slices.ContainsFunc(vs, func(v holdfasttest.Violation) bool { return v.Invariant == s.invariant }) {
				t.Errorf("no %s without %s, but %v", s.invariant, s.off, vs)
			}
		})
	}
}
