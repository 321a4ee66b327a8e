package fence

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// An offset that was queued behind a commit that was not made must not be committed: what that commit
// should have written would be passed over (I1).
// Public case C8.
func TestOffsetQueuedBehindAFailedCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		fail func(r *recorder, cancel func())
	}{
		{"the record is refused", func(*recorder, func()) {}},
		{"the call is withdrawn", func(_ *recorder, cancel func()) { cancel() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder()
				r.hold, r.holding = make(chan struct{}), make(chan struct{})
				release, holding := r.hold, r.holding
				w := fakeWriter(t, r, newFakeSession().grant(), 3, func(c *Config) { c.MaxWrites = 1 })
				var wg sync.WaitGroup
				errs := make([]error, 4)
				submit := func(i int, f func() error) {
					wg.Go(func() { errs[i] = f() })
					synctest.Wait()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				submit(0, func() error { return w.Write(t.Context(), put("a", "1")) })
				<-holding
				submit(1, func() error { return w.Commit(ctx, Offset{5, -1}, put("b", "poison")) })
				submit(2, func() error { return w.Commit(t.Context(), Offset{6, -1}, put("c", "1")) })
				submit(3, func() error { return w.Write(t.Context(), put("d", "1")) })
				c.fail(r, cancel)
				synctest.Wait()
				close(release)
				wg.Wait()
				if errs[0] != nil || errs[3] != nil || errs[1] == nil {
					t.Errorf("writes: %v", errs)
				}
				var refusal *Refusal
				if errs[2] == nil || errors.As(errs[2], &refusal) {
					t.Errorf("the commit behind the one that failed got %v", errs[2])
				}
				if next := r.committedOffset().Next; next != 3 {
					t.Errorf("%d is committed, want 3", next)
				}
				if err := w.Commit(t.Context(), Offset{4, -1}); err != nil { // nothing that failed is a floor
					t.Error(err)
				}
			})
		})
	}
}

// A refusal recomputes the offset of the batch while other calls read it as the floor: run with -race.
func TestFloorDuringARefusal(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	w := fakeWriter(t, r, newFakeSession().grant(), 0)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				w.Commit(context.Background(), Offset{0, -1}) // below the floor most of the time
			}
		}
	})
	for i := range int64(200) {
		w.Commit(context.Background(), Offset{i, -1}, put("a", "poison"))
		w.Commit(context.Background(), Offset{i, -1}, put("b", "1"))
	}
	close(stop)
	wg.Wait()
}

// blockedOffset makes an offset fetch wait for another's transaction until it is let go.
type blockedOffset struct {
	producer
	asked, answer chan struct{}
}

func (b blockedOffset) offset(context.Context) (wire.GroupOffset, error) {
	select {
	case <-b.answer:
	default:
		close(b.asked)
		<-b.answer
	}
	return wire.GroupOffset{}, kerr.UnstableOffsetCommit
}

type blockedOpener struct {
	fakeOpener
	asked, answer chan struct{}
}

func (o blockedOpener) open(ctx context.Context) (producer, error) {
	p, err := o.fakeOpener.open(ctx)
	if err == nil && o.opens > 1 {
		p = blockedOffset{p, o.asked, o.answer}
	}
	return p, err
}

// The writer ends while a Retake is half done: it must not take the client away from under it.
func TestRetakeWhileTheWriterEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(*Writer, *Ownership)
		want error
	}{
		{"the ownership is lost", func(_ *Writer, o *Ownership) { o.Lose(nil) }, stream.ErrOwnershipLost},
		{"close is out of patience", func(w *Writer, _ *Ownership) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			w.Close(ctx)
		}, stream.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { checkRetake(t, c.end, c.want) })
		})
	}
}

func checkRetake(t *testing.T, end func(*Writer, *Ownership), want error) {
	r, own := newRecorder(), newFakeSession().grant()
	r.offset_.Next = 3
	c, err := Config{Group: testGroup, Ownership: own, Input: stream.Partition{Topic: testInput},
		Progress: stream.Partition{Topic: testProgress}, InputPartitions: 1}.resolved()
	if err != nil {
		t.Fatal(err)
	}
	o := blockedOpener{fakeOpener{r}, make(chan struct{}), make(chan struct{})}
	w, _, err := open(t.Context(), c, "id", o)
	if err != nil {
		t.Fatal(err)
	}
	retaken := make(chan error, 1)
	go func() { retaken <- w.Retake(t.Context()) }()
	<-o.asked
	end(w, own)
	synctest.Wait() // the writer's goroutine has seen it
	close(o.answer)
	if err := <-retaken; !errors.Is(err, want) {
		t.Errorf("retake: %v, want %v", err, want)
	}
	closeWriter(t, w)
	if r.count("close") != r.opens {
		t.Errorf("%d clients were opened and %d closed", r.opens, r.count("close"))
	}
	if err := w.Retake(t.Context()); err == nil || r.opens != 2 {
		t.Errorf("retake of a writer that has ended: %v, %d takeovers", err, r.opens)
	}
}

// A client that cannot be made stays that way: the takeover must not be tried for ever.
func TestOpenWithAClientThatCannotBeMade(t *testing.T) {
	t.Parallel()
	_, _, err := Open(context.Background(), Config{
		Kafka: kafka.Config{}, Group: testGroup, Ownership: newFakeSession().grant(),
		Input: stream.Partition{Topic: testInput}, Progress: stream.Partition{Topic: testProgress},
	})
	if !errors.Is(err, stream.ErrConfig) {
		t.Errorf("open: %v", err)
	}
}

// A rebuild commits below what is committed. An attempt of it that fails is told from another owner's
// commit like any other.
func TestRebuildIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		step    wire.Step
		applied bool
	}{
		{"the client fails before the end", wire.StepProduce, false},
		{"the end is unknown, and was committed", wire.StepEnd, true},
		{"the end is unknown, and was aborted", wire.StepEnd, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, own := newRecorder(), newFakeSession().grant()
				w := fakeWriter(t, r, own, 50)
				failed := false
				r.applied = func(int) bool { return c.applied }
				r.fail = func(s wire.Step, _ int) error {
					if s != c.step || failed {
						return nil
					}
					failed = true
					return errors.New("EOF")
				}
				if err := w.Rebuild(t.Context(), 1, Offset{2, -1}); err != nil || own.State() != Held {
					t.Fatalf("rebuild: %v, ownership %v", err, own.State())
				}
				_, txns := r.snapshot()
				if len(txns) != 1 || txns[0].offset.Next != 2 || txns[0].progress.Incarnation != 1 {
					t.Errorf("committed %+v", txns)
				}
				if err := w.Commit(t.Context(), Offset{1, -1}); !errors.Is(err, stream.ErrOffsetBack) {
					t.Errorf("a commit below the rebuild's: %v", err)
				}
			})
		})
	}
}

// A revoke begins while the group is asked: the id must not be initialised any more (R4).
func TestMayInitLooksAgainAfterTheAnswer(t *testing.T) {
	t.Parallel()
	f := newFakeSession()
	o := f.grant()
	if err := o.MayInit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.session.ask = func(context.Context, string, int32, stream.Partition) error {
		o.drain(Token{MemberID: "member-1", Generation: 1})
		return kerr.RebalanceInProgress
	}
	if err := o.MayInit(t.Context()); !errors.Is(err, stream.ErrOwnershipLost) {
		t.Errorf("may init while draining: %v", err)
	}
}
