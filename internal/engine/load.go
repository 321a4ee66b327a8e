package engine

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// Snapshot is one record of the snapshot topic as restore reads it. The engine keeps neither Key
// nor Value.
type Snapshot struct {
	Key, Value  []byte
	Applied     int64  // last input offset folded into the key
	Steps       uint64 // steps folded into the key
	Incarnation uint32 // raised by each rebuild; lower ones are ignored
	Deleted     bool   // the key was deleted at Applied
	NoState     bool   // the key exists but has no state
	Tombstone   bool   // the key is gone
}

// Load takes one snapshot in during restore. Snapshots come in log order: a later one replaces an
// earlier one of the same key. The error wraps stream.ErrCorruptSnapshot and has the key; the
// caller adds where the record was read, and the next step. After an error the incarnation has to be
// raised before Start: the key is known to be in the log, and its state is not.
func (e *Engine[S]) Load(s Snapshot) error {
	if e.started || e.retained {
		violated(StartOnce, "Load after Start")
	}
	x := e.keys[string(s.Key)]
	if s.Tombstone {
		if x != nil {
			e.forget(x)
		}
		return nil
	}
	if s.Incarnation < e.incarnation {
		if x == nil { // the log has it all the same
			e.create(string(s.Key)).inc = s.Incarnation
		}
		return nil
	}
	e.incarnation = s.Incarnation
	if x == nil {
		x = e.create(string(s.Key))
	}
	x.inc = s.Incarnation
	var state S
	has := !s.Deleted && !s.NoState
	if has {
		var err error
		if state, err = e.decode(s.Value); err != nil {
			err := stream.NewError("restore", fmt.Errorf("%w: %w", stream.ErrCorruptSnapshot, err))
			err.Key = append([]byte{}, s.Key...)
			return err
		}
	}
	if x.in != nil {
		x.in.remove(x)
	}
	x.state, x.has = state, has
	x.applied, x.persisted, x.steps = s.Applied, s.Applied, s.Steps
	e.bury(x, s.Deleted)
	e.resize(x, len(s.Key)+len(s.Value))
	if s.Deleted {
		e.graves.push(x, s.Applied, 0)
	}
	return nil
}

func (e *Engine[S]) decode(src []byte) (s S, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	return e.cfg.Decode(src)
}

// RaiseIncarnation tells that snapshots of lower incarnations do not count, as the progress record
// has it. It may be called at any time before Start. Load raises it too, by the snapshots it sees.
func (e *Engine[S]) RaiseIncarnation(n uint32) {
	if e.started {
		violated(StartOnce, "RaiseIncarnation after Start")
	}
	e.incarnation = max(e.incarnation, n)
}

// Singly has each step of a key of keys, up to the offset that it names, close its batch: one batch had
// several of them and could not be committed, and the one at fault has to be found. It is called before
// Start, and needs Whole. The engine reads keys and does not change it.
func (e *Engine[S]) Singly(keys map[string]int64) {
	if e.started {
		violated(StartOnce, "Singly after Start")
	}
	e.single = keys
}

// After tells the leader epoch of the record before the first one to fold, -1 if it is not known: what is
// committed before a record is folded carries it. It is called before Start.
func (e *Engine[S]) After(epoch int32) {
	if e.started {
		violated(StartOnce, "After after Start")
	}
	e.epoch = epoch
}

// Start ends the restore, or the time since Retain. next is the first offset to fold; what comes below it is dropped.
// committed is the known committed offset, -1 if there is none. skip has the offsets that the error
// policy skipped in an earlier ownership of this process: a replay must not fold them. The engine
// reads skip and does not change it.
func (e *Engine[S]) Start(now time.Time, next, committed int64, skip map[int64]bool) {
	if e.started {
		violated(StartOnce, "Start was called before")
	}
	if next < committed {
		violated(CommittedRises, "start at %d is below the committed offset %d", next, committed)
	}
	e.dropUnread()
	if !e.retained {
		e.base = now // times of the keys count from it
	}
	e.started, e.retained, e.skip = true, false, skip
	e.next, e.first, e.committed = next, next, committed
	e.closedAt = e.at(now)
	e.exhume(e.at(now))
}
