package fence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// kilobyte is a record of 1000 bytes in a batch of its own.
func kilobyte(key string) stream.Message {
	m := put(key, "")
	m.Value = make([]byte, 1000-m.BatchBytes())
	return m
}

// takeIn has the broker take in that many bytes within the time of a transaction.
func (r *recorder) takeIn(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takes = MaxTransactionTimeout / time.Duration(bytes)
}

// together has n calls wait while one is committed, so that they go together.
func together(t *testing.T, w *Writer, r *recorder, from, n int) {
	t.Helper()
	hold, holding := make(chan struct{}), make(chan struct{})
	r.mu.Lock()
	r.hold, r.holding = hold, holding
	r.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	call := func(i int) {
		if err := w.Commit(t.Context(), Offset{int64(i + 1), -1}, kilobyte(fmt.Sprint(i))); err != nil {
			t.Errorf("I6: call %d: %v", i, err)
		}
	}
	first := make(chan struct{})
	wg.Go(func() {
		defer close(first)
		call(from)
	})
	select {
	case <-holding:
	case <-first: // it has failed
		return
	}
	for i := range n {
		wg.Go(func() { call(from + 1 + i) })
		synctest.Wait() // so that they come in order
	}
	close(hold)
}

// sizes returns how many records each committed transaction has, from the n-th on.
func (r *recorder) sizes(from int) (sizes []int) {
	_, txns := r.snapshot()
	for _, txn := range txns[from:] {
		sizes = append(sizes, len(txn.messages))
	}
	return sizes
}

// TestSlowCallsGoWithFewerOthers has calls wait that are too many for the time of one transaction. Each is
// written, in their order, in transactions that fit; and when the brokers are quick again all go together.
func TestSlowCallsGoWithFewerOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		w := fakeWriter(t, r, newFakeSession().grant(), 0)
		r.takeIn(5000)
		began := time.Now()
		together(t, w, r, 0, 32)
		// 32, 16 and 8 ran out of time.
		if took := time.Since(began); took > 3*MaxTransactionTimeout+33*MaxTransactionTimeout/5+2*time.Minute {
			t.Errorf("I7: it took %v", took)
		}
		next := int64(0)
		for i, size := range r.sizes(1) {
			if size > 5 {
				t.Errorf("transaction %d has %d records, and 5 are as many as fit", i+1, size)
			}
		}
		_, txns := r.snapshot()
		for _, txn := range txns {
			if next += int64(len(txn.messages)); txn.offset.Next != next {
				t.Errorf("I1: offset %d is committed with %d calls", txn.offset.Next, next)
			}
		}
		if next != 33 {
			t.Fatalf("%d of 33 calls are written", next)
		}
		r.takeIn(1 << 30)
		largest, from := 0, len(txns)
		for n := 33; n < 33+20*33; n += 33 {
			together(t, w, r, n, 32)
		}
		for _, size := range r.sizes(from) {
			largest = max(largest, size)
		}
		if largest != 32 {
			t.Errorf("I7: the largest transaction of brokers that are quick again has %d records, want 32", largest)
		}
	})
}

// TestSlowCallAlone has one call with more than fits. It is told so, with what the brokers said of it; the
// ownership stays, nothing is written, and the same in two calls is.
func TestSlowCallAlone(t *testing.T) {
	t.Parallel()
	for name, throttle := range map[string]string{"a quota": "broker 1 throttles", "no quota": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, own := newRecorder(), newFakeSession().grant()
				r.throttle = throttle
				var refused []stream.Refused
				w := fakeWriter(t, r, own, 0, func(c *Config) {
					c.Hooks = []stream.Hooks{{Refused: func(e stream.Refused) { refused = append(refused, e) }}}
				})
				r.takeIn(3500)
				began := time.Now()
				err := w.Commit(t.Context(), Offset{4, -1}, kilobyte("a"), kilobyte("b"), kilobyte("c"), kilobyte("d"))
				if !errors.Is(err, stream.ErrTooSlow) || errors.Is(err, stream.ErrUnreachable) || errors.Is(err, stream.ErrOwnershipLost) {
					t.Errorf("I6: commit: %v, want %v alone", err, stream.ErrTooSlow)
				}
				if !strings.Contains(fmt.Sprint(err), throttle) {
					t.Errorf("I6: the throttle is not told: %v", err)
				}
				if took := time.Since(began); took > MaxTransactionTimeout+time.Second {
					t.Errorf("it took %v, one attempt has %v", took, MaxTransactionTimeout)
				}
				if len(refused) != 1 || refused[0].Cause != "slow" || refused[0].Final {
					t.Errorf("told %+v", refused)
				}
				if own.State() != Held {
					t.Fatalf("ownership %v", own.State())
				}
				if err := w.Commit(t.Context(), Offset{2, -1}, kilobyte("a"), kilobyte("b")); err != nil {
					t.Error(err)
				}
				if err := w.Commit(t.Context(), Offset{4, -1}, kilobyte("c"), kilobyte("d")); err != nil {
					t.Error(err)
				}
				if state, txns := r.snapshot(); len(state) != 4 || len(txns) != 2 {
					t.Errorf("%d keys in %d transactions, want 4 in 2", len(state), len(txns))
				}
			})
		})
	}
}

// TestTimedOutByTheBroker has the broker abort a transaction for its age, and answer the end of it with a
// fence. What is in doubt is read back, and only then goes again, in smaller transactions; such a fence is no
// sign that the id is another's.
func TestTimedOutByTheBroker(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.InvalidTxnState, kerr.InvalidProducerEpoch, kerr.ProducerFenced} {
		for name, step := range map[string]wire.Step{"at the offset": wire.StepOffset, "at the end": wire.StepEnd, "at the end, which was in time": wire.StepEnd} {
			t.Run(code.Message+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r, own := newRecorder(), newFakeSession().grant()
					w := fakeWriter(t, r, own, 0)
					r.fail = func(s wire.Step, n int) error { // the broker looks at the age of transactions at times
						if n != 2 && n != 4 {
							return nil
						}
						switch s {
						case wire.StepProduce:
							time.Sleep(MaxTransactionTimeout * 9 / 10)
						case step:
							time.Sleep(MaxTransactionTimeout / 2)
							return code
						}
						return nil
					}
					r.applied = func(int) bool { return strings.HasSuffix(name, "in time") }
					together(t, w, r, 0, 8)
					for from := 9; from < 36; from += 9 {
						together(t, w, r, from, 8)
					}
					state, txns := r.snapshot()
					if len(state) != 36 {
						t.Errorf("I1: %d keys of 36", len(state))
					}
					records := 0
					for _, txn := range txns {
						records += len(txn.messages)
					}
					if records != 36 {
						t.Errorf("I3: %d records of 36 calls are committed", records)
					}
				})
			})
		}
	}
}

// Records that were acknowledged in good time are not too many, however long the end of their transaction takes: the
// coordinator did not answer, and smaller transactions would not help.
func TestLateEndIsNoSlowWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, own := newRecorder(), newFakeSession().grant()
		w := fakeWriter(t, r, own, 0)
		r.fail = func(s wire.Step, n int) error {
			if n != 2 || s != wire.StepEnd {
				return nil
			}
			time.Sleep(MaxTransactionTimeout + time.Second)
			return kerr.InvalidTxnState
		}
		r.applied = func(int) bool { return false }
		together(t, w, r, 0, 8)
		together(t, w, r, 9, 8)
		if state, _ := r.snapshot(); len(state) != 18 {
			t.Errorf("I1: %d keys of 18", len(state))
		}
		if most := w.pace.Learned(); most != 0 {
			t.Errorf("I7: what was written in time comes again with at most %d bytes", most)
		}
	})
}

// A call that is withdrawn while it waits for its second transaction is not written.
func TestSlowCallIsWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		w := fakeWriter(t, r, newFakeSession().grant(), 0)
		r.takeIn(1500)
		hold, holding := make(chan struct{}), make(chan struct{})
		r.hold, r.holding = hold, holding
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := w.Commit(t.Context(), Offset{1, -1}, kilobyte("a")); err != nil {
				t.Error(err)
			}
		})
		<-holding
		wg.Go(func() {
			if err := w.Commit(t.Context(), Offset{2, -1}, kilobyte("b")); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), MaxTransactionTimeout+5*time.Second)
		defer cancel()
		wg.Go(func() {
			if err := w.Commit(ctx, Offset{3, -1}, kilobyte("c")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the call that was withdrawn: %v", err)
			}
		})
		synctest.Wait()
		close(hold)
		wg.Wait()
		if state, _ := r.snapshot(); len(state) != 2 || r.committedOffset().Next != 2 {
			t.Errorf("%d keys, offset %d", len(state), r.committedOffset().Next)
		}
	})
}

// TestOffsetAloneIsNotTooSlow has a commit of the offset alone, as a start makes it, meet brokers that throttle and cannot
// take it for as long as it is tried: it cannot be made smaller, so that it is no write that is too slow.
func TestOffsetAloneIsNotTooSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, own := newRecorder(), newFakeSession().grant()
		r.throttle = "broker 1 throttles"
		r.fail = func(s wire.Step, _ int) error {
			if s == wire.StepOffset {
				return &wire.StepError{Step: s, Err: kerr.CoordinatorNotAvailable}
			}
			return nil
		}
		err := fakeWriter(t, r, own, 0).Commit(t.Context(), Offset{4, -1})
		if !errors.Is(err, stream.ErrUnreachable) || errors.Is(err, stream.ErrTooSlow) || !strings.Contains(fmt.Sprint(err), r.throttle) {
			t.Errorf("I7: commit: %v, want %v, with the throttle", err, stream.ErrUnreachable)
		}
	})
}
