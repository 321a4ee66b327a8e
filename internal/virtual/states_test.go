//go:build synctests

package virtual

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// rare are the states that the seeds are to reach. One that none of many seeds has met means that the
// schedules have lost what they were made for. An unknown outcome that is another's commit is not among them:
// the group is asked before the id is initialised again (R4), and who is told to be its member still has the
// partition. The fence's own tests have it.
var rare = []string{
	"outcome unknown",
	"unknown outcome read back as committed",
	"unknown outcome read back as aborted",
	"refused by generation, then committed",
	"refused as a member that is gone",
	"refused by producer epoch",
	"refused for a moment",
	"taken over after another owner",
	"taken over with an open transaction",
	"takeover tried again",
	"takeover too late for the callback",
	"drained at a revoke",
	"revoke budget spent",
	"membership lost",
	"silent rejoin",
	"granted anew",
	"restore waited for an open transaction",
	"retained state used",
	"dead letter",
	"state spoiled by a failed step",
	"tombstone written",
	"deleted key came back",
	"aborted input record",
	"output sent again",
	"user function outlived its ownership",
	"end that left a user function behind",
}

// states counts how often each rare state was reached. It is shared by the seeds of a run.
type states struct {
	mu    sync.Mutex
	count map[string]int
}

func newStates() *states { return &states{count: map[string]int{}} }

func (s *states) saw(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[name]++
}

// report is a line for each state, and the names of those that were not reached.
func (s *states) report() (lines, never []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Clone(rare)
	for name := range s.count {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names[len(rare):])
	for _, name := range names {
		lines = append(lines, fmt.Sprintf("%7d  %s", s.count[name], name))
		if s.count[name] == 0 {
			never = append(never, name)
		}
	}
	return lines, never
}

// messages are the log lines that show a state.
var messages = map[string]string{
	"takeover failed and is tried again":                                                                "takeover tried again",
	"revoke budget is over before everything was committed: the next owner folds it again":              "revoke budget spent",
	"takeover goes on behind the callback":                                                              "takeover too late for the callback",
	"partition granted anew":                                                                            "granted anew",
	"restore waits for an open transaction: committed records above it cannot be read before it ends. ": "restore waited for an open transaction",
	"restore waits for an open transaction on our own transactional id: another process opened it ":     "restore took over again",
	"restore makes no progress":                                                                         "restore made no progress",
	"joining the group is tried again":                                                                  "joining tried again",
	"a step failed on a state that cannot be copied":                                                    "state spoiled by a failed step",
	"fetch is tried again":                                                                              "fetch tried again",
	"partition could not be granted anew yet":                                                           "grant anew failed",
}

// marks counts the states that one member's hooks and log lines show, and keeps the lines.
type marks struct {
	states *states
	mu     sync.Mutex
	last   map[stream.Partition]string // the last refusal since a commit
	lines  []logLine
}

type logLine struct {
	at   time.Time
	text string
}

func newMarks(s *states) *marks { return &marks{states: s, last: map[stream.Partition]string{}} }

// logged is the slog.Handler of marks.
type logged struct {
	*marks
	with string
}

// Enabled implements slog.Handler.
func (l logged) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (l logged) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		l.with += " " + a.String()
	}
	return l
}

// WithGroup implements slog.Handler.
func (l logged) WithGroup(string) slog.Handler { return l }

// Handle implements slog.Handler.
func (l logged) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message + l.with
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "outcome" && r.Message == "the unknown outcome was read back" {
			l.states.saw("unknown outcome read back as " + a.Value.String())
		}
		line += " " + a.String()
		return true
	})
	for begin, name := range messages {
		if strings.HasPrefix(r.Message, begin) {
			l.states.saw(name)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, logLine{time.Now(), line})
	return nil
}

// hooks are those that feed the marks.
func (m *marks) hooks() stream.Hooks {
	return stream.Hooks{
		Assigned: func(e stream.Assigned) {
			if e.TookOver {
				m.states.saw("taken over after another owner")
			}
		},
		Restored: func(e stream.Restored) {
			if e.Retained {
				m.states.saw("retained state used")
			}
		},
		Committed: func(e stream.Committed) {
			if m.refusal(e.Partition, "") == "generation" {
				m.states.saw("refused by generation, then committed")
			}
		},
		Refused: func(e stream.Refused) {
			m.refusal(e.Partition, e.Cause)
			switch e.Cause {
			case "unknown":
				m.states.saw("outcome unknown")
			case "member":
				m.states.saw("refused as a member that is gone")
			case "producer-epoch":
				m.states.saw("refused by producer epoch")
			case "transient":
				m.states.saw("refused for a moment")
			}
		},
		Revoked: func(e stream.Released) {
			if e.Flushed && e.Cause == nil {
				m.states.saw("drained at a revoke")
			}
			m.refusal(e.Partition, "")
		},
		Lost: func(e stream.Released) {
			text := fmt.Sprint(e.Cause)
			switch {
			case strings.Contains(text, "rejoined under another id"):
				m.states.saw("silent rejoin")
			case strings.Contains(text, "the membership ended"):
				m.states.saw("membership lost")
			case strings.Contains(text, "another process has committed"):
				m.states.saw("unknown outcome read back as another's")
			}
			m.refusal(e.Partition, "")
		},
		DeadLettered: func(stream.DeadLettered) { m.states.saw("dead letter") },
	}
}

// refusal notes the last refusal of a partition and returns the one before.
func (m *marks) refusal(p stream.Partition, cause string) (before string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.last[p]
	m.last[p] = cause
	return before
}

// sawHistory counts the states that only the logs show.
func (s *states) sawHistory(h holdfasttest.History) {
	for _, log := range h.Inputs {
		for _, r := range log.Records {
			if r.Status == holdfasttest.Aborted {
				s.saw("aborted input record")
				break
			}
		}
	}
	seen := map[string]bool{}
	for _, log := range h.Outputs {
		for _, r := range log.Records {
			if r.Status != holdfasttest.Committed {
				continue
			}
			if seen[string(r.Value)] && r.Value != nil {
				s.saw("output sent again")
			}
			seen[string(r.Value)] = true
		}
	}
	for _, log := range h.Snapshots {
		s.sawSnapshots(log)
	}
}

func (s *states) sawSnapshots(log holdfasttest.Log) {
	deleted := map[string]bool{}
	var open uint64 // the owner of an aborted transaction, until another commits
	for _, r := range log.Records {
		if fence.IsProgressKey(r.Key) {
			p, err := fence.DecodeProgress(r.Value)
			switch {
			case err != nil:
			case r.Status == holdfasttest.Aborted:
				open = p.Nonce
			case open != 0 && p.Nonce != open:
				s.saw("taken over with an open transaction")
				open = 0
			default:
				open = 0
			}
			continue
		}
		rec, err := snapshot.Decode(r.Record)
		if err != nil || r.Status != holdfasttest.Committed {
			continue
		}
		switch rec.Kind {
		case snapshot.Tombstone:
			s.saw("tombstone written")
		case snapshot.Deleted:
			deleted[string(rec.Key)] = true
		case snapshot.State:
			if deleted[string(rec.Key)] {
				s.saw("deleted key came back")
			}
			delete(deleted, string(rec.Key))
		}
	}
}
