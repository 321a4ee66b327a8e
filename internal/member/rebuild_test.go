package member_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/snapshot"
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

// What a rebuild writes is of an incarnation above that of what it replaces: until the old states are gone from
// the topic, and in the eyes of whoever reads it, that alone tells which of two states of a key counts.
func TestRebuildRaisesTheIncarnation(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	c := p.config()
	p.must(until(p, c, 3))
	c.FoldVersion, c.Fold, c.Start.Disagreement = "2", count(10), holdfast.Rebuild
	p.must(until(p, c, 3))
	newest := uint64(0)
	_, err := snapshot.Restore(t.Context(), snapshot.RestoreConfig{Client: p.cl, Topic: states, Each: func(r stream.Record) error {
		if snapshot.Reserved(r.Key) {
			return nil
		}
		s, err := snapshot.Decode(r)
		if string(s.Value) == "30" {
			newest = s.Incarnation
		}
		return err
	}})
	p.must(err)
	if newest != 1 {
		t.Errorf("I2: the rebuilt state is of incarnation %d, want 1: those that it replaces are of 0", newest)
	}
}
