package holdfasttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// Recorder keeps what one member tells of itself. Its methods are safe for concurrent use.
type Recorder struct {
	name string

	mu     sync.Mutex
	to     io.Writer
	events []Event
	forget bool
	err    error
}

// NewRecorder returns a recorder for the member of that name. Each event is also written to w as one
// line of JSON, at once, so that what a killed process has told can be read (ReadMembers). w may be nil.
func NewRecorder(member string, w io.Writer) *Recorder {
	return &Recorder{name: member, to: w}
}

// Watch returns c with r's hooks added and its fold watched: the checker then also judges what each
// fold was given. It asks for the key's state in each call, so that a flow whose state holds references
// and has no Clone restores the partition after every step that fails. A pipe has no state to watch: give
// it Hooks.
func Watch[S any](r *Recorder, c holdfast.Config[S]) holdfast.Config[S] {
	fold, encode := c.Fold, c.Codec
	c.Fold = func(ctx context.Context, k *holdfast.Key[S], rec stream.Record) error {
		e := Event{Kind: EventFolded, Partition: stream.Partition{Topic: rec.Topic, Partition: rec.Partition}, Offset: rec.Offset, Key: bytes.Clone(k.Bytes())}
		s, ok := k.State()
		if ok {
			state, err := encode.Append([]byte{}, s)
			if err != nil {
				return fmt.Errorf("record the state: %w", err)
			}
			e.Has, e.State = true, state
		}
		r.add(e)
		return fold(ctx, k, rec)
	}
	c.Hooks = append(slices.Clone(c.Hooks), r.Hooks())
	return c
}

// Hooks returns the hooks that feed r. Watch adds them by itself.
func (r *Recorder) Hooks() stream.Hooks {
	released := func(kind string) func(stream.Released) {
		return func(e stream.Released) {
			r.add(Event{Kind: kind, Partition: e.Partition, Ownership: e.Ownership, Cause: text(e.Cause), Final: e.Flushed})
		}
	}
	return stream.Hooks{
		Assigned: func(e stream.Assigned) {
			r.add(Event{Kind: EventAssigned, Partition: e.Partition, Ownership: e.Ownership, Generation: e.Generation, Offset: e.Committed})
		},
		Restored: func(e stream.Restored) {
			r.add(Event{Kind: EventRestored, Partition: e.Partition, Offset: e.Start, Retained: e.Retained})
		},
		Committed: func(e stream.Committed) {
			r.add(Event{Kind: EventCommitted, Partition: e.Partition, Offset: e.Next})
		},
		Refused: func(e stream.Refused) {
			r.add(Event{Kind: EventRefused, Partition: e.Partition, Cause: e.Cause, Final: e.Final})
		},
		Failed: func(e stream.Failed) {
			r.add(Event{Kind: EventFailed, Partition: e.Partition, Offset: e.Offset, Action: e.Action, Cause: text(e.Err)})
		},
		DeadLettered: func(e stream.DeadLettered) {
			r.add(Event{Kind: EventDeadLettered, Partition: e.Partition, Offset: e.Offset, Cause: text(e.Err)})
		},
		Stalled: func(e stream.Stalled) {
			r.add(Event{Kind: EventStalled, Partition: e.Partition, Cause: e.Diagnosis, Final: e.Final})
		},
		Revoked: released(EventRevoked),
		Lost:    released(EventLost),
	}
}

// Stopped tells that the member's Run has returned err. Without it the checker takes the member for one
// that hangs.
func (r *Recorder) Stopped(err error) { r.add(Event{Kind: EventStopped, Cause: text(err)}) }

// Member returns what was recorded so far.
func (r *Recorder) Member() Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Member{Name: r.name, Events: slices.Clone(r.events)}
}

// Forget has r keep no events from here on: they are in what it writes. A run of hours would otherwise
// fill the memory whose growth it is to show.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.forget = nil, true
}

// Err returns the first error of the writer.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Recorder) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Member, e.At = r.name, time.Now()
	if !r.forget {
		r.events = append(r.events, e)
	}
	if r.to == nil || r.err != nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.to.Write(append(line, '\n'))
	}
	r.err = err
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ReadMembers reads what recorders have written, of any number of members in any mixture. A last line
// that ends early is left out, as a killed process may leave one. Set Killed of the members that were.
func ReadMembers(from io.Reader) ([]Member, error) {
	var members []Member
	at := map[string]int{}
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return members, nil
		}
		if err != nil {
			return members, err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return members, fmt.Errorf("a recorder's line: %w", err)
		}
		i, ok := at[e.Member]
		if !ok {
			i = len(members)
			at[e.Member], members = i, append(members, Member{Name: e.Member})
		}
		members[i].Events = append(members[i].Events, e)
	}
}
