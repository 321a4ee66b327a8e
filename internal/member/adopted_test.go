package member_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
)

// The progress record of a flow that was rebuilt is lost, and its states are not. A start that goes on with them writes
// under their incarnation: a lower one would be that of states which do not count, and the next restore would stop.
func TestAdoptedStatesKeepTheirIncarnation(t *testing.T) {
	t.Parallel()
	for _, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs, holdfast.Unfenced} {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			c := p.config()
			if c.Guarantee = g; g == holdfast.FencedOutputs {
				c.Commit.Persist = 0
			}
			p.produce("k", 2)
			p.must(until(p, c, 2))
			rebuilt := c
			rebuilt.FoldVersion, rebuilt.Start.Disagreement = "2", holdfast.Rebuild
			p.produce("k", 1)
			p.must(until(p, rebuilt, 3))
			p.must(p.cl.ProduceSync(t.Context(), &kgo.Record{Topic: states, Key: []byte("\x00progress")}).FirstErr())

			adopting := rebuilt
			adopting.Start.Disagreement = holdfast.AdoptEmpty
			p.produce("k", 1)
			p.must(until(p, adopting, 4))
			plain := rebuilt
			plain.Start.Disagreement = holdfast.StopAndAsk
			p.produce("k", 1)
			if err := until(p, plain, 5); err != nil {
				t.Fatalf("I7: the start after an adoption is refused: %v", err)
			}
			p.wantStored(map[string]string{"k": "5"})
		})
	}
}
