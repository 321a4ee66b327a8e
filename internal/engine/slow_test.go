package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// slow has a batch run out of time. What comes next is half as much, but for what cannot be made smaller.
func (w *world) slow(b *Batch) error {
	if w.bound = max(b.Size/2, 1); w.rng.IntN(8) == 0 {
		w.bound = 0 // as when it has grown again
	}
	again := w.e.Slow(w.now, b)
	w.e.Bound(w.bound)
	w.slowed[again]++
	switch again {
	case Unchanged:
		if !w.cfg.Whole && len(b.Writes) > 1 || w.cfg.Whole && stepsOf(b.Outputs) > 1 {
			return broken("smaller", "a batch of %d writes and %d outputs goes again as it is", len(b.Writes), len(b.Outputs))
		}
	case Smaller:
		w.batch = nil
	case Restored:
		if w.batch = nil; len(b.Writes) == 0 && w.e.Stats().Dirty == 0 {
			return broken("smaller", "the memory is dropped without a state that is ahead")
		}
		return w.crash()
	}
	return nil
}

// stateless is the engine of a component without states, which folds from offset 0.
func stateless(change func(*Settings)) *Engine[int] {
	s := Settings{Partition: stream.Partition{Topic: "in"}, Outputs: map[string]int{"out": 0}, Whole: true, CommitInterval: time.Second}
	change(&s)
	e := New(Config[int]{Settings: s})
	e.Start(epoch0, 0, 0, nil)
	return e
}

func outputsOf(n int) (ms []stream.Message) {
	for range n {
		ms = append(ms, stream.Message{Topic: "out", Value: make([]byte, 100)})
	}
	return ms
}

// TestSlowPipe has random batches of a component without states run out of time. What they had comes again in
// smaller ones, without a restore: the outputs of each record once, in order and in one batch, and the offset
// never past an output that is not committed.
func TestSlowPipe(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*seeds) {
		rng := rand.New(rand.NewPCG(seed, 3))
		e := stateless(func(s *Settings) { s.MaxBytes = 4000 })
		want, got, committed, now, bound := map[int64]int{}, map[int64]int{}, int64(0), epoch0, int64(0)
		take := func(drain bool) bool {
			b, err := e.Close(now, drain)
			if err != nil {
				t.Fatal(err)
			}
			if b == nil {
				return false
			}
			if bound > 0 && b.Size > bound && stepsOf(b.Outputs) > 1 {
				t.Fatalf("I7: a batch of %d bytes comes again, the bound is %d (seed %d)", b.Size, bound, seed)
			}
			for rng.IntN(3) == 0 {
				bound = max(b.Size/2, 1)
				e.Bound(bound)
				switch again := e.Slow(now, b); again {
				case Smaller:
					return true
				case Unchanged:
					if stepsOf(b.Outputs) > 1 {
						t.Fatalf("I7: a batch of %d records goes again as it is (seed %d)", stepsOf(b.Outputs), seed)
					}
				case Restored:
					t.Fatalf("seed %d: the memory is to be dropped", seed)
				}
			}
			for _, o := range b.Outputs {
				got[o.Offset]++ // of one past the offset it is missing there later
			}
			if b.LeaderEpoch != int32((b.Next-1)/10) {
				t.Fatalf("offset %d is committed with the leader epoch %d (seed %d)", b.Next, b.LeaderEpoch, seed)
			}
			for ; committed < b.Next; committed++ {
				if got[committed] != want[committed] {
					t.Fatalf("I4: %d of %d outputs of record %d (seed %d)", got[committed], want[committed], committed, seed)
				}
			}
			e.Committed(now, b)
			if rng.IntN(4) == 0 {
				bound = 0
				e.Bound(bound)
			}
			return true
		}
		for offset := int64(0); offset < 200; {
			if !e.Full() {
				ms := outputsOf(rng.IntN(4))
				want[offset] = len(ms)
				e.Mapped(stream.Record{Offset: offset, LeaderEpoch: int32(offset / 10)}, ms, nil)
				offset++
			}
			if rng.IntN(5) == 0 || e.Full() {
				now = now.Add(time.Second)
				take(false)
			}
		}
		for take(true) {
		}
		if committed != 200 {
			t.Fatalf("I7: committed up to %d of 200 (seed %d)", committed, seed)
		}
	}
}

// A batch is closed at the bound that was learned, below MaxBytes, and at MaxBytes when there is none.
func TestBoundClosesBatches(t *testing.T) {
	t.Parallel()
	e := stateless(func(s *Settings) { s.MaxBytes = 1 << 20 })
	e.Bound(2 * outputsOf(1)[0].BatchBytes())
	for offset := range int64(2) {
		if e.Full() {
			t.Errorf("full after %d records, the bound is 2", offset)
		}
		e.Mapped(stream.Record{Offset: offset}, outputsOf(1), nil)
	}
	if at, ok := e.Due(); !e.Full() || !ok || at.After(epoch0) {
		t.Errorf("full %v, due %v %v", e.Full(), at, ok)
	}
	e.Bound(0)
	if e.Full() {
		t.Error("full, and the bound is lifted")
	}
}
