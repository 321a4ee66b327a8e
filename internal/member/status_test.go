package member

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/stream"
)

// seen is a worker of a member that runs nothing.
func seen(m *Member) *worker {
	w := &worker{m: m, own: &fence.Ownership{}}
	w.view.next.Store(-1)
	return w
}

// Each event that hooks are told moves the status on.
func TestStatusFollowsTheEvents(t *testing.T) {
	t.Parallel()
	m := New(Config{Logger: slog.New(slog.DiscardHandler)})
	w := seen(m)
	now := time.Now()
	tell := w.view.hooks()
	fold := func(next int64, blocked time.Time) {
		w.view.next.Store(next)
		w.view.memory.Store(&memory{committed: 5, stats: engine.Stats{Keys: 3, Dirty: 2, OldestHold: 5}, blocked: blocked})
	}
	for i, c := range []struct {
		do    func()
		phase stream.Phase
		holds string // a part of the line
	}{
		{func() {}, stream.PhaseTakeover, "next -1, committed -1, stable end -1, lag -1"},
		{func() { tell.Assigned(stream.Assigned{Committed: 5}) }, stream.PhaseRestoring, "committed 5"},
		{func() { tell.Restoring(stream.Restoring{Position: 40, Target: 100}) }, stream.PhaseRestoring, "restoring 40 of 100"},
		{func() { tell.Stalled(stream.Stalled{Position: 40, Target: 100, Diagnosis: "no leader\x1b"}) }, stream.PhaseRestoreStalled, `no leader\x1b`},
		{func() { tell.Restoring(stream.Restoring{Position: 60, Target: 100}) }, stream.PhaseRestoring, "restoring 60 of 100"},
		{func() { w.tail.note(10); fold(7, time.Time{}) }, stream.PhaseFolding, "folding, next 7, committed 5, stable end 10, lag 3, keys 3, dirty 2, oldest hold 5"},
		{func() { tell.InputStalled(stream.InputStalled{Diagnosis: "producer 9"}) }, stream.PhaseInputStalled, "producer 9"},
		{func() { tell.InputStalled(stream.InputStalled{Over: true}) }, stream.PhaseFolding, ""},
		{func() { fold(7, now.Add(time.Minute)) }, stream.PhasePaused, "paused until"},
		{func() { w.doubt.Store(true) }, stream.PhaseInDoubt, ""},
		{func() { tell.Refused(stream.Refused{Cause: "generation", Code: 22, Err: errors.New("ILLEGAL")}) }, stream.PhaseInDoubt, "(generation): ILLEGAL"},
	} {
		c.do()
		s := w.status(now)
		if s.Phase != c.phase || !strings.Contains(s.String(), c.holds) {
			t.Errorf("I6: after event %d the status is %q, want phase %s and %q in it", i, s, c.phase, c.holds)
		}
	}
	if s := w.status(now); s.LastRefusal.Code != 22 || s.LastRefusal.At.IsZero() || s.PausedUntil != (time.Time{}) {
		t.Errorf("I6: the status is %+v", s)
	}
}

// A partition that is held and not restored, or lost and not granted anew, keeps a member from being ready; one
// that it gives up does not.
func TestReadyIsAllRestored(t *testing.T) {
	t.Parallel()
	m := New(Config{Logger: slog.New(slog.DiscardHandler)})
	in := fence.Membership{MemberID: "m", Generation: 1, Assigned: true}
	one, other := seen(m), seen(m)
	ready := func(when string, in fence.Membership, want bool, ws ...*worker) {
		t.Helper()
		if got := m.allRestored(in, ws); got != want {
			t.Errorf("I6: %s the member is ready: %v, want %v", when, got, want)
		}
	}
	ready("without partitions", in, true)
	ready("without an assignment", fence.Membership{MemberID: "m", Generation: 1}, false)
	one.view.memory.Store(&memory{})
	ready("with one restored", in, true, one)
	ready("with another that is not", in, false, one, other)
	other.view.memory.Store(&memory{})
	ready("with both", in, true, one, other)
	m.ending.Store(true)
	ready("while it leaves", in, false, one, other)
	m.ending.Store(false)
	m.fail(errors.New("boom"))
	ready("when it stops", in, false, one, other)
	if s := m.Status(); s.Stopped.Error != "boom" || s.Stopped.At.IsZero() {
		t.Errorf("I6: the status of a member that stops is %+v", s)
	}
}

// A status has the broker that throttles.
func TestStatusNamesTheThrottle(t *testing.T) {
	t.Parallel()
	m := New(Config{Logger: slog.New(slog.DiscardHandler)})
	if s := m.Status(); s.Throttled != (stream.ThrottleStatus{}) {
		t.Errorf("nobody throttles, and the status has %+v", s.Throttled)
	}
	before := time.Now()
	m.throttle.OnBrokerThrottle(kgo.BrokerMetadata{NodeID: 3, Host: "kafka\u202e.example"}, 5*time.Second, true)
	s := m.Status().Throttled
	if s.Broker != 3 || s.Host != `kafka\u202e.example` || s.Until.Before(before.Add(5*time.Second)) {
		t.Errorf("I6: the status has %+v, want broker 3 with what is not printable escaped, until in 5 s", s)
	}
}

// The text of an error may be a broker's.
func TestStatusTextsAreBounded(t *testing.T) {
	t.Parallel()
	got := printable(fmt.Errorf("a\nb\u009b%s", strings.Repeat("x", 5000)))
	if !strings.HasPrefix(got, `a\nb\u009bxx`) || len(got) > 1100 || !strings.HasSuffix(got, "…") {
		t.Errorf("the text is %q", got)
	}
}
