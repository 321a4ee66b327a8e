package member

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/stream"
)

// view is what others may see of a worker. Whoever does something leaves what came of it here, and never
// changes it again: the worker its numbers, and all the events that hooks are told. So a status asks nobody and
// waits for nobody, and says what the metrics say.
type view struct {
	next   atomic.Int64           // the engine's; -1: not restored
	memory atomic.Pointer[memory] // nil: not restored

	assigned       atomic.Pointer[stream.Assigned]
	restoring      atomic.Pointer[stream.Restoring]
	restoreStalled atomic.Pointer[stream.Stalled]
	inputStalled   atomic.Pointer[stream.InputStalled] // nil: it goes on
	committed      atomic.Pointer[time.Time]
	refused        atomic.Pointer[stream.StatusError]

	// Of the worker's goroutine.
	published time.Time
}

// memory are a worker's numbers at one moment.
type memory struct {
	committed int64
	stats     engine.Stats
	blocked   time.Time
}

// publishedEvery is how old the numbers of a worker that folds without a pause may get.
const publishedEvery = 100 * time.Millisecond

// publish leaves the numbers where a status finds them. A worker that is about to wait does it at once; one that
// folds on, now and then.
func (w *worker) publish(now time.Time, waits bool) {
	w.view.next.Store(w.engine.Next())
	if !waits && now.Sub(w.view.published) < publishedEvery {
		return
	}
	w.view.published = now
	is := memory{committed: w.engine.CommittedOffset(), stats: w.engine.Stats(), blocked: w.blocked}
	if last := w.view.memory.Load(); last == nil || *last != is {
		w.view.memory.Store(&is)
	}
}

// hooks are the member's, behind that of the worker's view.
func (w *worker) hooks() hooks { return append(hooks{w.view.hooks()}, w.m.hooks...) }

func (v *view) hooks() stream.Hooks {
	return stream.Hooks{
		Assigned:  func(e stream.Assigned) { v.assigned.Store(&e) },
		Restoring: func(e stream.Restoring) { v.restoring.Store(&e) },
		Stalled:   func(e stream.Stalled) { v.restoreStalled.Store(&e) },
		InputStalled: func(e stream.InputStalled) {
			if e.Over {
				v.inputStalled.Store(nil)
				return
			}
			v.inputStalled.Store(&e)
		},
		Committed: func(stream.Committed) {
			now := time.Now()
			v.committed.Store(&now)
		},
		Refused: func(e stream.Refused) {
			v.refused.Store(&stream.StatusError{At: time.Now(), Cause: e.Cause, Code: e.Code, Error: printable(e.Err)})
		},
	}
}

// status is what can be seen of the worker. It may be called by any goroutine.
func (w *worker) status(now time.Time) stream.PartitionStatus {
	p, v := w.own.Partition(), &w.view
	s := stream.PartitionStatus{
		Topic: p.Topic, Partition: p.Partition, Ownership: w.own.Number(),
		Next: -1, Committed: -1, StableEnd: w.tail.told.Load() - 1, Lag: -1, OldestHold: -1,
	}
	if e := v.assigned.Load(); e != nil {
		s.Committed = e.Committed
	}
	if at := v.committed.Load(); at != nil {
		s.LastCommit = *at
	}
	if e := v.refused.Load(); e != nil {
		s.LastRefusal = *e
	}
	m := v.memory.Load()
	if m != nil { // its numbers are of before next
		s.Committed, s.Keys, s.DirtyKeys, s.OldestHold = m.committed, m.stats.Keys, m.stats.Dirty, m.stats.OldestHold
		s.Next = v.next.Load()
	}
	if s.Next >= 0 && s.StableEnd >= 0 {
		s.Lag = max(s.StableEnd-s.Next, 0)
	}
	w.phase(&s, m, now)
	return s
}

// phase sets the phase, and what belongs to it.
func (w *worker) phase(s *stream.PartitionStatus, m *memory, now time.Time) {
	v := &w.view
	stalled := v.inputStalled.Load()
	switch state := w.own.State(); {
	case state == fence.Gone:
		s.Phase, s.Detail = stream.PhaseLost, printable(w.own.Cause())
	case state == fence.Draining:
		s.Phase = stream.PhaseDraining
	case m == nil && v.assigned.Load() == nil:
		s.Phase = stream.PhaseTakeover
	case m == nil:
		w.restorePhase(s)
	case w.doubt.Load():
		s.Phase = stream.PhaseInDoubt
	case w.haltedBy.Load() != nil:
		s.Phase, s.Detail = stream.PhaseHalted, printable(*w.haltedBy.Load())
	case m.blocked.After(now):
		s.Phase, s.PausedUntil = stream.PhasePaused, m.blocked
	case stalled != nil:
		s.Phase, s.Detail = stream.PhaseInputStalled, escaped(stalled.Diagnosis)
	default:
		s.Phase = stream.PhaseFolding
	}
}

func (w *worker) restorePhase(s *stream.PartitionStatus) {
	s.Phase = stream.PhaseRestoring
	if e := w.view.restoring.Load(); e != nil {
		s.Restore = stream.RestoreStatus{Position: e.Position, Target: e.Target, Records: e.Records, Bytes: e.Bytes}
	}
	if e := w.view.restoreStalled.Load(); e != nil && e.Position >= s.Restore.Position { // else it goes on since
		s.Phase, s.Detail = stream.PhaseRestoreStalled, escaped(e.Diagnosis)
		s.Restore.Position, s.Restore.Target = e.Position, e.Target
	}
}

// all returns the newest worker of each partition that is assigned.
func (m *Member) all() []*worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.workers))
}

// Status says what the member is doing. It may be called at any time, by any goroutine, and waits for nothing.
func (m *Member) Status() stream.Status {
	s := stream.Status{Group: m.cfg.Session.Group, Generation: -1, Partitions: []stream.PartitionStatus{}}
	if broker, host, until := m.throttle.Last(); !until.IsZero() {
		s.Throttled = stream.ThrottleStatus{Broker: broker, Host: escaped(host), Until: until}
	}
	m.mu.Lock()
	if m.refused != nil {
		s.JoinRefused = StatusError(m.refusedAt, m.refused)
	}
	if m.failure != nil {
		s.Stopped = StatusError(m.failedAt, m.failure)
	}
	m.mu.Unlock()
	select {
	case <-m.ready:
	default:
		return s // no client yet
	}
	now := time.Now()
	workers := m.all()
	for _, w := range workers {
		s.Partitions = append(s.Partitions, w.status(now))
	}
	slices.SortFunc(s.Partitions, func(a, b stream.PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	if m.ctx.Err() != nil {
		return s // out of the group, though its client still knows what it was there
	}
	in, _ := m.group.Membership()
	s.MemberID, s.Generation = in.MemberID, in.Generation
	s.Ready = m.allRestored(in, workers)
	return s
}

// allRestored reports whether the member has its partitions and each of them is restored. One that is being given
// up does not count.
func (m *Member) allRestored(in fence.Membership, workers []*worker) bool {
	if !in.Assigned || m.ending.Load() || m.failed() != nil {
		return false
	}
	for _, w := range workers {
		switch w.own.State() {
		case fence.Gone:
			return false
		case fence.Held:
			if w.view.memory.Load() == nil {
				return false
			}
		case fence.Draining:
		}
	}
	return true
}

// watchReady tells once that the member is ready, and ends then.
func (m *Member) watchReady(ctx context.Context) {
	for {
		in, changed := m.group.Membership() // before the look
		if m.allRestored(in, m.all()) {
			if m.cfg.Ready != nil {
				m.cfg.Ready()
			}
			return
		}
		select {
		case <-changed:
		case <-m.restored:
		case <-ctx.Done():
			return
		}
	}
}

// lookReady has watchReady look: a partition was restored.
func (m *Member) lookReady() {
	select {
	case m.restored <- struct{}{}:
	default:
	}
}

// StatusError is an error as a status has it.
func StatusError(at time.Time, err error) stream.StatusError {
	return stream.StatusError{At: at, Cause: stream.Cause(err), Error: printable(err)}
}

func printable(err error) string {
	if err == nil {
		return ""
	}
	return escaped(err.Error())
}

// longest is how many characters of a text a status has.
const longest = 1000

// escaped makes a text, which may have come from a broker or a record, safe to print.
func escaped(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > longest {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
