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

// TestEpochOfAHeldOffset folds a record that comes after a gap (an aborted transaction, or markers) and
// after a change of the leader, and looks at what is committed before its state is persisted. The log of
// the epoch that goes with the committed offset has to reach that offset: an owner that asks for its end
// would else find that the log was truncated, and stop.
func TestEpochOfAHeldOffset(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		records []stream.Record // the last one alone has a state to be persisted
		epoch   int32
	}{
		{"the gap begins with the next leader", []stream.Record{{Offset: 0, LeaderEpoch: 0}, {Offset: 7, LeaderEpoch: 1}}, 1},
		{"a gap of one leader", []stream.Record{{Offset: 0, LeaderEpoch: 3}, {Offset: 7, LeaderEpoch: 3}}, 3},
		{"no gap, and the next leader", []stream.Record{{Offset: 0, LeaderEpoch: 0}, {Offset: 1, LeaderEpoch: 1}}, 0},
		{"the first record, after a gap", []stream.Record{{Offset: 7, LeaderEpoch: 2}}, 2},
		{"the first record", []stream.Record{{Offset: 0, LeaderEpoch: 2}}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			last := c.records[len(c.records)-1].Offset
			e := mapEngine(func(call *Call[counts], r stream.Record) error {
				if r.Offset == last {
					call.Set(counts{"n": 1})
				}
				return nil
			}, nil)
			for _, r := range c.records {
				r.Topic, r.Key = "in", []byte("k")
				if res := e.Step(t.Context(), epoch0, r); res.Outcome != Folded {
					t.Fatalf("the step of %d was %v", r.Offset, res.Outcome)
				}
			}
			if next, epoch := e.committable(); next != last || epoch != c.epoch {
				t.Errorf("I7: committable is %d with epoch %d, want %d with %d", next, epoch, last, c.epoch)
			}
		})
	}
}
