package fence

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// failOnce fails the step of the n-th transaction.
func failOnce(step wire.Step, n int, err error) func(wire.Step, int) error {
	return func(s wire.Step, at int) error {
		if s == step && at == n {
			return err
		}
		return nil
	}
}

func TestUnknownOutcomeIsReadBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		applied bool
		commits int // transactions that the fake broker commits for the one write
	}{
		{"it was committed", true, 1},
		{"it was not committed", false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder()
				r.fail = failOnce(wire.StepEnd, 2, errors.New("EOF"))
				r.applied = func(n int) bool { return n == 2 && c.applied }
				unknown := 0
				var events []stream.Committed
				w := fakeWriter(t, r, newFakeSession().grant(), 3, func(conf *Config) {
					conf.Unknown = func(error) { unknown++ }
					conf.Hooks = []stream.Hooks{{Committed: func(e stream.Committed) { events = append(events, e) }}}
				})
				if err := w.Write(t.Context(), put("k", "1")); err != nil {
					t.Fatal(err)
				}
				if err := w.Commit(t.Context(), Offset{4, -1}, put("k", "2")); err != nil {
					t.Fatal(err)
				}
				if err := w.Write(t.Context(), put("k", "3")); err != nil { // the base of the next read-back is right
					t.Error(err)
				}
				_, txns := r.snapshot()
				switch n := len(txns); {
				case n < 2+c.commits:
					t.Errorf("I1: %d transactions of 3 writes that were answered are committed: %+v", n, txns)
				case n > 2+c.commits:
					t.Errorf("I3: a write is committed twice: %+v", txns)
				case txns[1].progress.Sequence != 2 || txns[2].progress.Sequence != 3:
					t.Errorf("committed: %+v", txns)
				}
				if unknown != 1 || r.opens != 2 || r.count("abort") != 0 {
					t.Errorf("told %d times, %d takeovers, %d aborts; want 1, 2, 0", unknown, r.opens, r.count("abort"))
				}
				if len(events) != 3 || events[1].ReadBack != true || events[2].ReadBack {
					t.Errorf("events %+v", events)
				}
			})
		})
	}
}

// With the rule off, an unknown outcome is taken for an abort and the records are committed twice:
// what the read-back prevents.
func TestUnknownOutcomeWithoutReadBackRepeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.fail = failOnce(wire.StepEnd, 1, errors.New("EOF"))
		r.applied = func(n int) bool { return n == 1 }
		c := Config{Group: "g", Ownership: newFakeSession().grant(), Input: stream.Partition{Topic: "i"}, Progress: stream.Partition{Topic: "p"}}
		c, err := c.resolved()
		if err != nil {
			t.Fatal(err)
		}
		w, _, err := open(rule.Without(t.Context(), rule.ReadBack), c, "id", fakeOpener{r})
		if err != nil {
			t.Fatal(err)
		}
		defer closeWriter(t, w)
		if err := w.Commit(t.Context(), Offset{1, -1}, put("k", "v")); err != nil {
			t.Fatal(err)
		}
		if _, txns := r.snapshot(); len(txns) != 2 {
			t.Errorf("%d commits of one write, the rule makes no difference", len(txns))
		}
	})
}

func TestReadBackFindsAnotherOwner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		other func(*recorder)
	}{
		{"offset and progress", func(r *recorder) {
			r.commitLocked(fakeTxn{progress: Progress{Nonce: 99, Sequence: 1}, offset: Offset{9, -1}, metadata: witness{99, 1}.metadata("")})
		}},
		{"offset alone, by a tool", func(r *recorder) { r.offset_ = wire.GroupOffset{Next: 3, Metadata: ""} }},
		{"progress alone", func(r *recorder) { r.log = append(r.log, Progress{Nonce: 99, Sequence: 7}) }},
		{"the offset expired", func(r *recorder) { r.offset_ = wire.GroupOffset{Next: -1} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, own := newRecorder(), newFakeSession().grant()
				w := fakeWriter(t, r, own, 3)
				if err := w.Write(t.Context(), put("k", "1")); err != nil {
					t.Fatal(err)
				}
				r.fail = func(s wire.Step, n int) error {
					if s == wire.StepProduce && n == 2 {
						c.other(r)
						return kerr.InvalidProducerEpoch
					}
					return nil
				}
				err := w.Write(t.Context(), put("k", "2"))
				if !errors.Is(err, stream.ErrOwnershipLost) || !isForeign(err) || errors.Is(err, stream.ErrOutcomeUnknown) {
					t.Errorf("I3: a write after another owner's commit: %v", err)
				}
				if own.State() != Gone || r.state["k"] != "1" {
					t.Errorf("ownership %v, state %v", own.State(), r.state)
				}
			})
		})
	}
}

func TestUnknownOutcomeWhileDrainingEndsTheOwnership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, own := newRecorder(), newFakeSession().grant()
		r.fail = failOnce(wire.StepEnd, 1, errors.New("EOF"))
		w := fakeWriter(t, r, own, 3)
		own.drain(Token{MemberID: "member-1", Generation: 1})
		err := w.Write(t.Context(), put("k", "1"))
		if !errors.Is(err, stream.ErrOutcomeUnknown) || !errors.Is(err, stream.ErrOwnershipLost) {
			t.Errorf("write: %v", err)
		}
		if r.opens != 1 || own.State() != Gone {
			t.Errorf("%d takeovers, ownership %v: nothing is initialised while draining", r.opens, own.State())
		}
	})
}

func TestStaleGenerationWaitsForTheNextToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		reuse  bool
		opens  int
		aborts int
	}{
		{"the client is reused", true, 1, 1},
		{"transaction.version 1: the client is replaced", false, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, s := newRecorder(), newFakeSession()
				own := s.grant()
				r.fail = failOnce(wire.StepOffset, 1, kerr.IllegalGeneration)
				w := fakeWriter(t, r, own, 3)
				w.producer.(*fakeProducer).reuse = c.reuse
				var wg sync.WaitGroup
				wg.Go(func() {
					if err := w.Commit(t.Context(), Offset{5, -1}, put("k", "1")); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(time.Second)
				if r.count("begin") != 1 {
					t.Errorf("I8: %d transactions before the generation changed", r.count("begin"))
				}
				s.set("member-1", 2)
				wg.Wait()
				_, txns := r.snapshot()
				if len(txns) != 1 || txns[0].token.Generation != 2 || txns[0].offset.Next != 5 {
					t.Errorf("transactions %+v", txns)
				}
				if r.opens != c.opens || r.count("abort") != c.aborts {
					t.Errorf("%d takeovers and %d aborts, want %d and %d", r.opens, r.count("abort"), c.opens, c.aborts)
				}
			})
		})
	}
}

func TestStaleGenerationEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		drain bool
		after time.Duration
	}{
		{"after the rebalance timeout", false, 60 * time.Second},
		{"at once while draining: the token of the callback is the last", true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, own := newRecorder(), newFakeSession().grant()
				r.fail = failOnce(wire.StepOffset, 1, kerr.IllegalGeneration)
				w := fakeWriter(t, r, own, 3)
				if c.drain {
					own.drain(Token{MemberID: "member-1", Generation: 1})
				}
				began := time.Now()
				err := w.Write(t.Context(), put("k", "1"))
				if !errors.Is(err, stream.ErrOwnershipLost) || own.State() != Gone {
					t.Errorf("write: %v, ownership %v", err, own.State())
				}
				if took := time.Since(began); took < c.after || took > c.after+time.Second {
					t.Errorf("I6: the wait took %v, want %v", took, c.after)
				}
			})
		})
	}
}

func TestFightStopsWithIDTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.fail = func(s wire.Step, _ int) error {
			if s == wire.StepProduce {
				return kerr.InvalidProducerEpoch
			}
			return nil
		}
		w := fakeWriter(t, r, newFakeSession().grant(), 3)
		err := w.Write(t.Context(), put("k", "1"))
		var e *stream.Error
		if !errors.Is(err, stream.ErrIDTaken) || !errors.As(err, &e) || e.TransactionalID != "id" || e.Hint == "" {
			t.Errorf("I6: a fight for the id has no end with a named cause: %v", err)
		}
		if n := r.count("begin"); n != maxFences {
			t.Errorf("%d attempts, want %d", n, maxFences)
		}
		if err := w.Write(t.Context(), put("k", "1")); !errors.Is(err, stream.ErrIDTaken) {
			t.Errorf("the writer went on: %v", err)
		}
	})
}

// Fences with a commit between them are timeouts and late processes, and do not add up.
func TestFencesWithCommitsBetweenDoNotAddUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.fail = func(s wire.Step, n int) error {
			if s == wire.StepProduce && n%2 == 1 {
				return kerr.InvalidProducerEpoch
			}
			return nil
		}
		w := fakeWriter(t, r, newFakeSession().grant(), 3)
		for range 2 * maxFences {
			if err := w.Write(t.Context(), put("k", "1")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestRefusedRecordIsTakenOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.hold, r.holding = make(chan struct{}), make(chan struct{})
		release, holding := r.hold, r.holding
		w := fakeWriter(t, r, newFakeSession().grant(), 3)
		var wg sync.WaitGroup
		errs := make([]error, 5)
		submit := func(i int, f func() error) {
			wg.Go(func() { errs[i] = f() })
			synctest.Wait()
		}
		ctx := t.Context()
		submit(0, func() error { return w.Write(ctx, put("a", "1")) })
		<-holding
		submit(1, func() error { return w.Commit(ctx, Offset{4, -1}, put("b", "1")) })
		submit(2, func() error { return w.Commit(ctx, Offset{5, -1}, put("c", "1"), put("d", "poison")) })
		submit(3, func() error { return w.Write(ctx, put("e", "1")) })
		submit(4, func() error { return w.Commit(ctx, Offset{6, -1}) })
		close(release)
		wg.Wait()
		for _, i := range []int{0, 1, 3} {
			if errs[i] != nil {
				t.Errorf("write %d: %v", i, errs[i])
			}
		}
		var refusal *Refusal
		if !errors.As(errs[2], &refusal) || refusal.Index != 1 || string(refusal.Message.Key) != "d" {
			t.Errorf("the refused write got %v", errs[2])
		}
		if errs[4] == nil {
			t.Error("an offset behind a refused write was committed")
		}
		state, txns := r.snapshot()
		if len(state) != 3 || state["a"]+state["b"]+state["e"] != "111" {
			t.Errorf("state %v", state)
		}
		if last := txns[len(txns)-1]; len(txns) != 2 || last.offset.Next != 4 {
			t.Errorf("I1: %d transactions, the last at %d, want 2 and 4", len(txns), last.offset.Next)
		}
	})
}

func TestQueuedWriteCanBeCancelledDrainedCannot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.hold, r.holding = make(chan struct{}), make(chan struct{})
		release, holding := r.hold, r.holding
		w := fakeWriter(t, r, newFakeSession().grant(), 3)
		ctx, cancel := context.WithCancel(t.Context())
		var drained, queued error
		var wg sync.WaitGroup
		wg.Go(func() { drained = w.Write(ctx, put("drained", "1")) })
		<-holding
		wg.Go(func() { queued = w.Commit(ctx, Offset{9, -1}, put("queued", "1")) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		wg.Wait()
		if drained != nil || !errors.Is(queued, context.Canceled) {
			t.Errorf("drained: %v, queued: %v", drained, queued)
		}
		if err := w.Commit(t.Context(), Offset{4, -1}); err != nil { // the offset withdrawn is no floor
			t.Error(err)
		}
	})
}

func TestOwnershipGoneCutsTheTransactionInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, own := newRecorder(), newFakeSession().grant()
		r.hold, r.holding = make(chan struct{}), make(chan struct{})
		holding := r.holding
		w := fakeWriter(t, r, own, 3)
		var flying, queued error
		var wg sync.WaitGroup
		wg.Go(func() { flying = w.Write(t.Context(), put("k", "1")) })
		<-holding
		wg.Go(func() { queued = w.Write(t.Context(), put("k", "2")) })
		synctest.Wait()
		own.Lose(nil)
		wg.Wait()
		if !errors.Is(flying, stream.ErrOutcomeUnknown) || !errors.Is(flying, stream.ErrOwnershipLost) {
			t.Errorf("in flight: %v", flying)
		}
		if !errors.Is(queued, stream.ErrOwnershipLost) || errors.Is(queued, stream.ErrOutcomeUnknown) {
			t.Errorf("queued: %v", queued)
		}
		closeWriter(t, w)
		if r.count("abort") != 0 || r.opens != 1 {
			t.Errorf("I3: %d aborts and %d takeovers after the ownership was gone", r.count("abort"), r.opens)
		}
	})
}

func TestRetakeOnlyBeforeTheFirstCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, own := newRecorder(), newFakeSession().grant()
		w := fakeWriter(t, r, own, 3)
		if err := w.Retake(t.Context()); err != nil || r.opens != 2 {
			t.Errorf("retake: %v, %d takeovers", err, r.opens)
		}
		if err := w.Write(t.Context(), put("k", "1")); err != nil {
			t.Fatal(err)
		}
		if err := w.Retake(t.Context()); err == nil {
			t.Error("retake after a commit")
		}
	})
}

func TestRetakeFindsAnotherOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, own := newRecorder(), newFakeSession().grant()
		w := fakeWriter(t, r, own, 3)
		r.offset_ = wire.GroupOffset{Next: 8, Metadata: witness{5, 5}.metadata("")}
		if err := w.Retake(t.Context()); !errors.Is(err, stream.ErrOwnershipLost) || own.State() != Gone {
			t.Errorf("retake: %v, ownership %v", err, own.State())
		}
	})
}

func TestRecordOverTheLimitIsRefusedBeforeItQueues(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	w := fakeWriter(t, r, newFakeSession().grant(), 3, func(c *Config) { c.MaxRecordBytes = 1000 })
	err := w.Write(context.Background(), put("a", "1"), put("big", string(make([]byte, 1000))))
	var refusal *Refusal
	var e *stream.Error
	if !errors.Is(err, stream.ErrTooLarge) || !errors.As(err, &refusal) || refusal.Index != 1 || !errors.As(err, &e) || string(e.Key) != "big" {
		t.Errorf("write: %v", err)
	}
	if r.count("begin") != 0 {
		t.Error("a transaction began")
	}
}

// A stale owner can open a transaction after our takeover. The stable fetch waits for it, and after a
// while the id is taken over again.
// A transaction that hangs on the offsets' partition is ended by no takeover: Open gives up, and says
// how a person ends it.
