package engine

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// R21: a key that is not persisted holds the offset back while another one's snapshot is ahead of it. The
// batch carries the epoch of the record before the offset, which was folded before the restart, and how far
// the snapshots may have applied the log.
func TestBatchKnowsHowFarItsSnapshotsAre(t *testing.T) {
	t.Parallel()
	e := New(Config[int]{
		Settings: Settings{Partition: stream.Partition{Topic: "in"}, PersistInterval: time.Hour, CommitInterval: time.Hour},
		Fold: func(_ context.Context, c *Call[int], r stream.Record) error {
			c.Set(1)
			if string(r.Key) == "ahead" {
				c.Persist()
			}
			return nil
		},
		Encode: func(dst []byte, _ int) ([]byte, error) { return append(dst, '1'), nil },
		Decode: func([]byte) (int, error) { return 1, nil },
		Plain:  true,
	})
	e.After(7)
	e.Start(epoch0, 5, 5, nil)
	for i, key := range []string{"held", "ahead", "held"} {
		r := rec(int64(5+i), key, "x")
		r.LeaderEpoch = 8
		if res := e.Step(t.Context(), epoch0, r); res.Outcome != Folded {
			t.Fatalf("offset %d: %v", r.Offset, res.Outcome)
		}
	}
	b, err := e.Close(epoch0.Add(time.Minute), false)
	if err != nil || b == nil {
		t.Fatalf("batch %v, %v", b, err)
	}
	if len(b.Writes) != 1 || b.Next != 5 || b.LeaderEpoch != 7 || b.Folded != 8 || b.FoldedEpoch != 8 {
		t.Errorf("batch %+v, want one write at 5 of epoch 7, folded up to 8 of epoch 8", b)
	}
}
