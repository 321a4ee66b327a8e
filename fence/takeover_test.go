package fence

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// A fault of a takeover that does not pass ends it, with a name and a next step (I6). Public case B15.
func TestTakeoverThatDoesNotPassIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(*recorder)
		limit time.Duration
		want  error
		hint  string
	}{
		{"unstable offset", func(r *recorder) { r.stableFrom = 1 << 30 }, unstableLimit, stream.ErrRestoreStalled, "find-hanging"},
		{"topic made again", func(r *recorder) { r.offsetErr = kerr.UnknownTopicID }, strangeIDLimit, stream.ErrInputChanged, "made again"},
		{"coordinator away", func(r *recorder) { r.offsetErr = kerr.CoordinatorNotAvailable }, 2 * time.Minute, stream.ErrUnreachable, "coordinator"},
		{"coordinator away under a quota", func(r *recorder) { r.offsetErr, r.throttle = kerr.CoordinatorNotAvailable, "broker 1 throttles" }, 2 * time.Minute, stream.ErrUnreachable, "coordinator"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder()
				c.spoil(r)
				config, err := Config{
					Group: testGroup, Ownership: newFakeSession().grant(), Input: stream.Partition{Topic: testInput},
					Progress: stream.Partition{Topic: testProgress}, InputPartitions: 1, Logger: testLogger(t),
				}.resolved()
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				_, _, err = open(ctx, config, "id", fakeOpener{r})
				if took := time.Since(began); took < c.limit || took > c.limit+time.Minute {
					t.Errorf("Open gave up after %v, want %v", took, c.limit)
				}
				var e *stream.Error
				if !errors.Is(err, c.want) || !errors.As(err, &e) || !strings.Contains(e.Hint, c.hint) {
					t.Errorf("got %v, want %v with a next step about %q", err, c.want, c.hint)
				}
				if errors.Is(err, stream.ErrTooSlow) || !strings.Contains(err.Error(), r.throttle) {
					t.Errorf("I6: got %v, want %q told, and no transaction that was too slow", err, r.throttle)
				}
			})
		})
	}
}

// endless is a coordinator that answers without end that a transaction is being completed: the client asks
// again for as long as it may.
type endless struct{ fakeOpener }

func (endless) open(ctx context.Context) (producer, error) {
	<-ctx.Done()
	return nil, &wire.StepError{Step: wire.StepInit, Err: context.Cause(ctx)}
}

// One attempt of a takeover that does not end by itself is ended, with a name and a next step (I6). Public
// case B16.
func TestTakeoverThatIsNeverAnsweredEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config, err := Config{
			Group: testGroup, Ownership: newFakeSession().grant(), Input: stream.Partition{Topic: testInput},
			Progress: stream.Partition{Topic: testProgress}, InputPartitions: 1, Logger: testLogger(t),
		}.resolved()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_, _, err = open(ctx, config, "id", endless{fakeOpener{newRecorder()}})
		var e *stream.Error
		if !errors.Is(err, stream.ErrUnreachable) || !errors.As(err, &e) || e.TransactionalID != "id" || !strings.Contains(e.Hint, "coordinator") {
			t.Errorf("got %v, want ErrUnreachable with the id and a next step", err)
		}
	})
}

func TestUnstableOffsetIsTakenOverAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.stableFrom = 3
		began := time.Now()
		fakeWriter(t, r, newFakeSession().grant(), 3)
		if took := time.Since(began); r.opens != 3 || took < 2*unstableFor || took > 2*unstableFor+time.Second {
			t.Errorf("%d takeovers in %v, want 3 in %v", r.opens, took, 2*unstableFor)
		}
	})
}

// The brokers are restarted one by one, which takes minutes. What is met for a moment after it is no
// fault that has lasted for minutes (I7).
func TestTakeoverAfterALongFault(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"unstable offset": kerr.UnstableOffsetCommit, "topic id not known yet": kerr.UnknownTopicID} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder()
				r.fail = func(step wire.Step, _ int) error {
					switch {
					case step != wire.StepInit:
					case r.opens == 1: // as a client that is told of a concurrent transaction asks again
						time.Sleep(unstableLimit)
						r.offsetErr = fault
					default:
						r.offsetErr = nil
					}
					return nil
				}
				fakeWriter(t, r, newFakeSession().grant(), 3)
				if r.opens != 2 {
					t.Errorf("%d takeovers, want 2", r.opens)
				}
			})
		})
	}
}
