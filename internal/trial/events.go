package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// The kinds of an Event beside those of holdfasttest, of which all but EventFolded are told.
const (
	EventExit  = "exit"  // the process has ended; Cause says how, "" in good order
	EventStats = "stats" // what the process uses
)

// Event is one thing that a process has told its test. Fields that do not apply are zero.
type Event struct {
	Member     string // the member's name
	Life       int    // which of its processes, from 1
	At         time.Time
	Kind       string
	Partition  int32 // of the input
	Offset     int64 // as holdfasttest.Event has it
	Generation int32 // of assigned
	TookOver   bool  // assigned: another's epoch was on the transactional id
	ReadBack   bool  // committed: the outcome was unknown at first
	Final      bool
	Cause      string
	Detail     string // refused: the error
	Stats      *Stats
}

// Kinds accepts events of these kinds.
func Kinds(kinds ...string) func(Event) bool {
	return func(e Event) bool { return slices.Contains(kinds, e.Kind) }
}

// CommittedTo accepts a commit of partition p that reaches next.
func CommittedTo(p int32, next int64) func(Event) bool {
	return func(e Event) bool {
		return e.Kind == holdfasttest.EventCommitted && e.Partition == p && e.Offset >= next
	}
}

// eventLog is what all processes have told so far, in the order in which it was read.
type eventLog struct {
	mu     sync.Mutex
	events []Event
	fault  error         // a process has ended that was not to
	grown  chan struct{} // closed, and replaced, when something was added
}

func newEventLog() *eventLog { return &eventLog{grown: make(chan struct{})} }

func (l *eventLog) add(e Event, fault error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	if l.fault == nil {
		l.fault = fault
	}
	close(l.grown)
	l.grown = make(chan struct{})
}

// follow adds what a process tells until it ends.
func (l *eventLog) follow(tb testing.TB, m *Member, life *life) {
	defer close(life.done)
	for {
		line, err := life.proc.Next(tb.Context())
		if errors.Is(err, io.EOF) {
			e := Event{Member: m.Name, Life: life.number, At: time.Now(), Kind: EventExit}
			err := life.proc.Wait(tb.Context())
			if err != nil {
				e.Cause = err.Error()
			}
			if !life.ending.Load() {
				err = fmt.Errorf("%s ended by itself: %v", life.name, err)
				m.exits.Add(1)
			} else {
				err = nil
			}
			l.add(e, err)
			return
		}
		if err != nil {
			return // the test has ended
		}
		events, err := m.parse(line)
		if err != nil {
			events = []Event{{At: time.Now(), Kind: "?"}}
			err = fmt.Errorf("%s says %q: %w", life.name, line, err)
		}
		for _, e := range events {
			e.Member, e.Life = m.Name, life.number
			l.add(e, err)
		}
	}
}

func (m *Member) parse(line string) ([]Event, error) {
	if m.java {
		return javaEvents(line)
	}
	var e Event
	err := json.Unmarshal([]byte(line), &e)
	return []Event{e}, err
}

// Mark is a place in what the processes have told, to wait for what comes after it.
func (f *Field) Mark() int {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	return len(f.log.events)
}

// Since returns the events after mark that are accepted.
func (f *Field) Since(mark int, is func(Event) bool) []Event {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	return f.log.sinceLocked(mark, is)
}

func (l *eventLog) sinceLocked(mark int, is func(Event) bool) (found []Event) {
	for _, e := range l.events[mark:] {
		if is(e) {
			found = append(found, e)
		}
	}
	return found
}

// Await waits until n events after mark are accepted, and returns them. The test fails when that takes
// longer than Patience, or a process ends by itself.
func (f *Field) Await(what string, mark, n int, is func(Event) bool) []Event {
	f.TB.Helper()
	limit := time.NewTimer(f.Patience)
	defer limit.Stop()
	for {
		f.log.mu.Lock()
		found, fault, grown := f.log.sinceLocked(mark, is), f.log.fault, f.log.grown
		f.log.mu.Unlock()
		if len(found) >= n {
			return found
		}
		if fault != nil {
			f.TB.Fatalf("while %s was awaited: %v", what, fault)
		}
		select {
		case <-grown:
		case <-limit.C:
			all := f.Since(mark, func(Event) bool { return true })
			f.TB.Fatalf("%s: %d of %d within %v; the last events: %+v", what, len(found), n, f.Patience, all[max(0, len(all)-8):])
		}
	}
}
