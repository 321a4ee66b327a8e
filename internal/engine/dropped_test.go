package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

// rebuilt returns an engine that has n keys of before a rebuild, "old 0" and so on, and was started at 0.
func rebuilt(t *testing.T, n int, change func(*Config[counts])) *Engine[counts] {
	t.Helper()
	cfg := Config[counts]{}
	mapEngine(inPlace, func(full *Config[counts]) { cfg = *full })
	if change != nil {
		change(&cfg)
	}
	e := New(cfg)
	for i := range n {
		if err := e.Load(Snapshot{Key: fmt.Append(nil, "old ", i), Value: []byte(`{"n":1}`), Applied: int64(i), Steps: 1}); err != nil {
			t.Fatal(err)
		}
	}
	e.RaiseIncarnation(1)
	e.Start(epoch0, 0, 0, nil)
	return e
}

// names returns the keys of b that are dropped.
func (b *Batch) names() (names []string) {
	if b == nil {
		return nil
	}
	for _, key := range b.Dropped {
		names = append(names, string(key))
	}
	slices.Sort(names)
	return names
}

// I2 and R30: each key that a rebuild drops gets a tombstone, once, and none that has come again before. Of one
// that comes while its tombstone is on its way the snapshot is in a later batch.
func TestDroppedKeysGetTombstones(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"": false, "whole": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := rebuilt(t, 3, func(c *Config[counts]) { c.Whole = whole })
			if s := e.Stats(); s.Keys != 0 || s.Bytes != 0 {
				t.Errorf("stats %+v, want nothing of before the rebuild", s)
			}
			e.Step(t.Context(), epoch0, rec(0, "old 1", ""))
			if due, ok := e.Due(); !ok || due.After(epoch0) {
				t.Errorf("I2: tombstones are due at %v, %t; want at once", due, ok)
			}
			b, err := e.Close(epoch0, false)
			if err != nil || fmt.Sprint(b.names()) != "[old 0 old 2]" {
				t.Fatalf("I2: tombstones for %q, %v; want old 0 and old 2", b.names(), err)
			}
			e.Step(t.Context(), epoch0, rec(1, "old 2", ""))
			e.Aborted(epoch0, b)
			if b, err = e.Close(epoch0, false); err != nil || fmt.Sprint(b.names()) != "[old 0]" {
				t.Fatalf("I2: after an abort tombstones for %q, %v; want old 0", b.names(), err)
			}
			e.Committed(epoch0, b)
			e.Step(t.Context(), epoch0, rec(2, "old 0", ""))
			for b, err = e.Close(epoch0, true); b != nil && err == nil; b, err = e.Close(epoch0, true) {
				if len(b.Dropped) > 0 {
					t.Errorf("I2: tombstones for %q once more", b.names())
				}
				e.Committed(epoch0, b)
			}
			for i := range 3 {
				if v, ok := e.Get(fmt.Append(nil, "old ", i)); !ok || v.State["n"] != 1 || !v.Clean() {
					t.Errorf("I2: old %d is %+v, want 1, persisted", i, v)
				}
			}
		})
	}
}

// R30: what a restore finds of before a rebuild is dropped, whatever it is and wherever it is in the log.
func TestEveryRecordOfBeforeARebuildIsDropped(t *testing.T) {
	t.Parallel()
	cfg := Config[counts]{}
	mapEngine(inPlace, func(full *Config[counts]) { cfg = *full })
	e := New(cfg)
	state := []byte(`{"n":1}`)
	for _, s := range []Snapshot{
		{Key: []byte("state"), Value: state},
		{Key: []byte("gone"), Value: state},
		{Key: []byte("gone"), Tombstone: true},
		{Key: []byte("deleted"), Deleted: true},
		{Key: []byte("none"), NoState: true},
		{Key: []byte("again"), Value: state},
		{Key: []byte("again"), Value: state, Incarnation: 2},
		{Key: []byte("late"), Value: state, Incarnation: 1},
	} {
		if err := e.Load(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Load(Snapshot{Key: []byte("unreadable"), Value: []byte("{"), Incarnation: 2}); !errors.Is(err, stream.ErrCorruptSnapshot) {
		t.Fatal(err)
	}
	e.RaiseIncarnation(2)
	if err := e.Load(Snapshot{Key: []byte("new"), Value: state, Incarnation: 3}); err != nil {
		t.Fatal(err)
	}
	e.Start(epoch0, 0, 0, nil)
	b, err := e.Close(epoch0, false)
	if got := strings.Join(b.names(), " "); err != nil || got != "again deleted late none state unreadable" {
		t.Errorf("I2: tombstones for %q, %v", got, err)
	}
}

// R30: tombstones go in bounded batches, and have their share beside a load that fills each of them.
func TestDroppedKeysHaveTheirShare(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"": false, "whole": true} {
		for _, most := range []int{1, 8} {
			t.Run(fmt.Sprint(name, most), func(t *testing.T) {
				t.Parallel()
				const n = 20
				e := rebuilt(t, n, func(c *Config[counts]) { c.Whole, c.MaxWrites = whole, most })
				offset, left := int64(0), n
				for batches := 0; left > 0; batches++ {
					if batches > n {
						t.Fatalf("I7: %d are left after %d batches", left, batches)
					}
					for range most {
						e.Step(t.Context(), epoch0, rec(offset, fmt.Sprint("new ", offset), ""))
						offset++
					}
					b, err := e.Close(epoch0, false)
					if err != nil {
						t.Fatal(err)
					}
					if got, bound := len(b.Writes)+len(b.Dropped), max(most+most/4, 2); len(b.Dropped) == 0 || got > bound {
						t.Fatalf("I7: %d writes and %d tombstones in a batch of at most %d", len(b.Writes), len(b.Dropped), bound)
					}
					left -= len(b.Dropped)
					e.Committed(epoch0, b)
				}
			})
		}
	}
}

// A tombstone that the broker refuses stops the partition, by name; with the rest it is tried at the next run.
func TestRefusedTombstone(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"": false, "whole": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := rebuilt(t, 1, func(c *Config[counts]) { c.Whole = whole })
			b, err := e.Close(epoch0, false)
			if err != nil {
				t.Fatal(err)
			}
			rest, err := e.Refused(epoch0, b, 0, errStub)
			if at, ok := errors.AsType[*stream.Error](err); rest != nil || !ok || string(at.Key) != "old 0" || !errors.Is(err, errStub) {
				t.Errorf("got %v, %v; want an error of the key old 0", rest, err)
			}
		})
	}
}

// R27: a batch that ran out of time sheds tombstones first where it has one step alone, down to one of them.
func TestSlowTombstonesComeBackFewer(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"": false, "whole": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := rebuilt(t, 16, func(c *Config[counts]) { c.Whole, c.MaxBytes = whole, 1<<20 })
			for before := 17; before > 1; {
				b, err := e.Close(epoch0, false)
				if err != nil || len(b.Dropped) == 0 || len(b.Dropped) >= before {
					t.Fatalf("I7: %d tombstones after %d, %v", len(b.Dropped), before, err)
				}
				before = len(b.Dropped)
				if again := e.Slow(epoch0, b); (again == Unchanged) != (before == 1) || again == Restored {
					t.Fatalf("I7: a batch of %d tombstones comes again as %v", before, again)
				}
				e.Bound(b.Size / 2)
			}
		})
	}
}
