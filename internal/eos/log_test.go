package eos

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// entry is a line that a process has said.
type entry struct{ from, line string }

// is reports whether the line begins with one of the prefixes.
func (e entry) is(prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(e.line, p) {
			return true
		}
	}
	return false
}

// has reports whether the line contains text.
func (e entry) has(text string) bool { return strings.Contains(e.line, text) }

// eventLog is what all processes of a bench have said so far, in the order in which it was read.
type eventLog struct {
	t *testing.T

	mu      sync.Mutex
	entries []entry
	fault   error         // a process has ended that was not to
	broken  chan struct{} // closed when there is a fault
	grown   chan struct{} // closed, and replaced, when something was added
}

func newEventLog(t *testing.T) *eventLog {
	return &eventLog{t: t, broken: make(chan struct{}), grown: make(chan struct{})}
}

// follow adds what a process says until it ends. It may end once ending is true.
func (l *eventLog) follow(from string, p *kafkatest.Process, ending *atomic.Bool) {
	done := make(chan struct{})
	l.t.Cleanup(func() { <-done }) // the context of the test has ended by then
	go func() {
		defer close(done)
		for {
			line, err := p.Next(l.t.Context())
			if err == nil {
				l.add(entry{from, line}, nil)
				continue
			}
			if errors.Is(err, io.EOF) && !ending.Load() {
				l.add(entry{from, "exit"}, fmt.Errorf("%s ended by itself: %v", from, p.Wait(l.t.Context())))
			}
			return
		}
	}()
}

func (l *eventLog) add(e entry, fault error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	if fault != nil && l.fault == nil {
		l.fault = fault
		close(l.broken)
	}
	close(l.grown)
	l.grown = make(chan struct{})
}

// trouble returns why broken is closed.
func (l *eventLog) trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// mark is a place in the log, to wait for what comes after it.
func (l *eventLog) mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// since returns the entries after mark that are accepted.
func (l *eventLog) since(mark int, is func(entry) bool) (found []entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sinceLocked(mark, is)
}

func (l *eventLog) sinceLocked(mark int, is func(entry) bool) (found []entry) {
	for _, e := range l.entries[mark:] {
		if is(e) {
			found = append(found, e)
		}
	}
	return found
}

// await waits until n entries after mark are accepted, and returns them.
func (l *eventLog) await(what string, mark, n int, is func(entry) bool) []entry {
	l.t.Helper()
	limit := time.After(patience)
	for {
		l.mu.Lock()
		found, fault, grown := l.sinceLocked(mark, is), l.fault, l.grown
		last := l.entries[max(mark, len(l.entries)-8):]
		l.mu.Unlock()
		if len(found) >= n {
			return found
		}
		if fault != nil {
			l.t.Fatal(fault)
		}
		select {
		case <-grown:
		case <-limit:
			l.t.Fatalf("%s: %d of %d within %v; the last events: %q", what, len(found), n, patience, last)
		}
	}
}
