package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// The tests of this file are the nine of the first system's group commit, by their numbers there.

// writeAll writes n keys side by side and waits for all.
func writeAll(t *testing.T, w *Writer, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := w.Write(context.Background(), put(fmt.Sprintf("k%d", i), "v")); err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// 1 and 2: every queued write commits with its offset, once, within the cap.
func TestGroupCommit1And2EveryWriteOnceWithinTheCap(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 256} {
		t.Run(fmt.Sprint("cap ", limit), func(t *testing.T) {
			t.Parallel()
			r := newRecorder()
			w := fakeWriter(t, r, newFakeSession().grant(), 3, func(c *Config) { c.MaxWrites = limit })
			const keys = 20
			writeAll(t, w, keys)
			state, txns := r.snapshot()
			if len(state) != keys {
				t.Errorf("I1: %d keys were stored, want %d", len(state), keys)
			}
			sent := 0
			for _, txn := range txns {
				sent += len(txn.messages)
				if len(txn.messages) > limit {
					t.Errorf("a transaction of %d writes, the cap is %d", len(txn.messages), limit)
				}
				if txn.offset.Next != 3 || txn.progress.Inputs[0].Next != 3 {
					t.Errorf("offset %d, progress %d, want 3", txn.offset.Next, txn.progress.Inputs[0].Next)
				}
			}
			if sent != keys {
				t.Errorf("%d records were sent, want %d", sent, keys)
			}
			begins, offsets, commits := r.count("begin"), r.count("offset"), r.count("commit")
			if begins != commits || offsets != commits || r.count("abort") != 0 {
				t.Errorf("%d begins, %d offsets, %d commits, %d aborts", begins, offsets, commits, r.count("abort"))
			}
			if limit == 1 && commits != keys {
				t.Errorf("%d commits at cap 1, want %d", commits, keys)
			}
		})
	}
}

// 3: an offset-only commit makes a transaction with no writes.
func TestGroupCommit3OffsetAlone(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	w := fakeWriter(t, r, newFakeSession().grant(), -1)
	if err := w.Commit(context.Background(), Offset{7, -1}); err != nil {
		t.Fatal(err)
	}
	_, txns := r.snapshot()
	if len(txns) != 1 || txns[0].offset.Next != 7 || len(txns[0].messages) != 0 {
		t.Errorf("transactions %+v, want one without writes at 7", txns)
	}
}

// 4: an offset without records rides along and does not use up the cap.
func TestGroupCommit4OffsetsRideOutsideTheCap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.hold, r.holding = make(chan struct{}), make(chan struct{})
		release, holding := r.hold, r.holding
		w := fakeWriter(t, r, newFakeSession().grant(), 3, func(c *Config) { c.MaxWrites = 4 })
		var wg sync.WaitGroup
		submit := func(f func() error) {
			wg.Go(func() {
				if err := f(); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		submit(func() error { return w.Write(t.Context(), put("first", "v")) })
		<-holding
		submit(func() error { return w.Commit(t.Context(), Offset{5, -1}) })
		for i := range 4 {
			submit(func() error { return w.Write(t.Context(), put(fmt.Sprint(i), "v")) })
		}
		close(release)
		wg.Wait()
		_, txns := r.snapshot()
		if len(txns) != 2 || len(txns[1].messages) != 4 || txns[1].offset.Next != 5 {
			t.Errorf("want the offset and all 4 writes in the second of 2 transactions, got %+v", txns)
		}
	})
}

// 5: the first write commits the offset that the takeover found.
func TestGroupCommit5FirstWriteCommitsTheSeed(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	w := fakeWriter(t, r, newFakeSession().grant(), 3)
	writeAll(t, w, 1)
	_, txns := r.snapshot()
	if len(txns) != 1 || txns[0].offset.Next != 3 {
		t.Errorf("transactions %+v, want one at 3", txns)
	}
}

// 6: the committed offset never leads the writes that were queued before it.
// Public case C8.
func TestGroupCommit6OffsetNeverLeadsWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.hold, r.holding = make(chan struct{}), make(chan struct{})
		release, holding := r.hold, r.holding
		w := fakeWriter(t, r, newFakeSession().grant(), 3, func(c *Config) { c.MaxWrites = 1 })
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if err := w.Write(t.Context(), put(fmt.Sprint(i), "v")); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		<-holding
		wg.Go(func() {
			if err := w.Commit(t.Context(), Offset{10, -1}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		close(release)
		wg.Wait()
		_, txns := r.snapshot()
		written := 0
		for _, txn := range txns {
			written += len(txn.messages)
			if txn.offset.Next == 10 && written < 3 {
				t.Errorf("I1: offset 10 was committed after %d of 3 writes", written)
			}
			if txn.offset.Next != 10 && txn.offset.Next != 3 {
				t.Errorf("offset %d was committed", txn.offset.Next)
			}
		}
		if written != 3 || r.committedOffset().Next != 10 {
			t.Errorf("%d writes, offset %d", written, r.committedOffset().Next)
		}
	})
}

// 7: a member without a generation commits nothing.
// Public case A12.
func TestGroupCommit7NoGenerationNoCommit(t *testing.T) {
	t.Parallel()
	r, s := newRecorder(), newFakeSession()
	o := s.grant()
	w := fakeWriter(t, r, o, 3)
	s.set("member-1", -1)
	if err := w.Write(context.Background(), put("k", "v")); !errors.Is(err, stream.ErrOwnershipLost) {
		t.Errorf("write without a generation: %v", err)
	}
	if r.count("offset") != 0 || r.count("commit") != 0 {
		t.Errorf("%d offsets and %d commits were sent", r.count("offset"), r.count("commit"))
	}
}

// 8: the generation is read live for each transaction.
func TestGroupCommit8GenerationIsLive(t *testing.T) {
	t.Parallel()
	r, s := newRecorder(), newFakeSession()
	w := fakeWriter(t, r, s.grant(), 3)
	writeAll(t, w, 1)
	s.set("member-1", 2)
	writeAll(t, w, 1)
	_, txns := r.snapshot()
	if len(txns) != 2 || txns[0].token.Generation != 1 || txns[1].token.Generation != 2 {
		t.Errorf("I8: transactions %+v, want generations 1 and 2", txns)
	}
}

// 9: a commit that cannot succeed reaches the caller, and commits nothing.
func TestGroupCommit9FailureReachesTheCaller(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	r.fail = func(s wire.Step, _ int) error {
		if s == wire.StepOffset {
			return kerr.GroupAuthorizationFailed
		}
		return nil
	}
	w := fakeWriter(t, r, newFakeSession().grant(), 3)
	err := w.Write(context.Background(), put("k", "v"))
	if !errors.Is(err, kerr.GroupAuthorizationFailed) || !errors.Is(err, stream.ErrNotAuthorized) {
		t.Errorf("write: %v", err)
	}
	if state, _ := r.snapshot(); len(state) != 0 || r.count("commit") != 0 {
		t.Errorf("state %v after %d commits", state, r.count("commit"))
	}
}
