package member_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// The incarnation of a rebuild is above that of every snapshot, also where no progress record says
// which it was.
func TestRebuildWithoutProgressRecord(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	c := p.config()
	for by, version := range []string{"", "2", "3"} {
		c.FoldVersion, c.Fold, c.Start.Disagreement = version, count(by+1), holdfast.Rebuild
		p.must(until(p, c, 3))
	}
	p.must(p.cl.ProduceSync(t.Context(), &kgo.Record{Topic: states, Key: []byte("\x00progress")}).FirstErr())
	c.FoldVersion, c.Fold, c.Start.Disagreement = "4", count(100), holdfast.StopAndAsk
	if err := until(p, c, 3); !errors.Is(err, stream.ErrOffsetMismatch) {
		t.Fatalf("without Rebuild: %v, want %v", err, stream.ErrOffsetMismatch)
	}
	c.Start.Disagreement = holdfast.Rebuild
	p.must(until(p, c, 3))
	p.produce("k", 1)
	c.Start.Disagreement = holdfast.StopAndAsk
	p.must(until(p, c, 4))
	p.wantStored(map[string]string{"k": "400"})
}
