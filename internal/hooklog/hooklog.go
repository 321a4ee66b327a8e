// Package hooklog keeps what the hooks of a member tell, for a test of the same process to wait on. Members
// in processes of their own have internal/trial for that.
package hooklog

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// Revoked and Lost tell the two hooks with the same event apart.
type (
	Revoked stream.Released
	Lost    stream.Released
)

// Member is whose events are kept.
type Member struct {
	Name     string
	Done     <-chan struct{} // closed when its Run has returned
	Err      func() error    // what Run has returned; called after Done
	Patience time.Duration   // bounds each wait: only a hang meets it
}

// Log has a member's events in the order in which they were told. It is safe for concurrent use.
type Log struct {
	tb     testing.TB
	member Member

	mu     sync.Mutex
	events []any
	wake   chan struct{} // closed, and replaced, when an event was noted
}

// New returns an empty log.
func New(tb testing.TB, m Member) *Log {
	return &Log{tb: tb, member: m, wake: make(chan struct{})}
}

// Hooks tell the log everything but the progress of restores.
func (l *Log) Hooks() stream.Hooks {
	return stream.Hooks{
		Assigned:     func(e stream.Assigned) { l.note(e) },
		Restored:     func(e stream.Restored) { l.note(e) },
		Committed:    func(e stream.Committed) { l.note(e) },
		Refused:      func(e stream.Refused) { l.note(e) },
		Failed:       func(e stream.Failed) { l.note(e) },
		Revoked:      func(e stream.Released) { l.note(Revoked(e)) },
		Lost:         func(e stream.Released) { l.note(Lost(e)) },
		Stalled:      func(e stream.Stalled) { l.note(e) },
		InputStalled: func(e stream.InputStalled) { l.note(e) },
		OutputAcked:  func(e stream.OutputAcked) { l.note(e) },
		DeadLettered: func(e stream.DeadLettered) { l.note(e) },
		Throttled:    func(e stream.Throttled) { l.note(e) },
		Stopped:      func(e stream.Stopped) { l.note(e) },
		Gone:         func(e stream.Gone) { l.note(e) },
		Halted:       func(e stream.Halted) { l.note(e) },
	}
}

func (l *Log) note(e any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	close(l.wake)
	l.wake = make(chan struct{})
}

// Mark is a place in the log, to look at what comes after it.
func (l *Log) Mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events)
}

// after returns the events from a mark on, and what is closed when there are more.
func (l *Log) after(mark int) (events []any, wake <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[mark:len(l.events):len(l.events)], l.wake
}

// All returns the events after mark that are an E.
func All[E any](l *Log, mark int) (out []E) {
	events, _ := l.after(mark)
	for _, e := range events {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// Await waits for an event after mark that is an E and accepted by is, and returns it. It ends the test if
// the member ends first.
func Await[E any](l *Log, mark int, is func(E) bool) E {
	l.tb.Helper()
	limit := time.After(l.member.Patience)
	var missing E
	for ended := false; ; {
		events, wake := l.after(mark)
		if i := slices.IndexFunc(events, func(e any) bool { one, ok := e.(E); return ok && is(one) }); i >= 0 {
			return events[i].(E)
		}
		if ended && len(events) == 0 {
			l.tb.Fatalf("%s ended with %v while a %T was awaited", l.member.Name, l.member.Err(), missing)
		}
		mark += len(events)
		select {
		case <-wake:
		case <-l.member.Done: // it may have told something since it was looked
			ended = true
		case <-limit:
			l.tb.Fatalf("%s: no %T within %v", l.member.Name, missing, l.member.Patience)
		}
	}
}
