package holdfasttest

import (
	"bytes"

	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// checkMembers checks what the members have told of themselves.
func (c *checker) checkMembers(units []*unit) {
	of := map[stream.Partition]*unit{}
	for _, u := range units {
		of[u.input] = u
	}
	for _, m := range c.h.Members {
		c.checkEnds(m)
		c.checkRestores(of, m)
		for _, e := range m.Events {
			u := of[e.Partition]
			if e.Partition.Topic != "" && u == nil {
				c.violate("I2", "", e.Partition, e.Offset, e.Key, "member %s tells of a partition that is not in the history", m.Name)
				continue
			}
			switch e.Kind {
			case EventAssigned:
				if e.Generation < 0 {
					c.violate("I8", "", e.Partition, -1, nil, "member %s was granted the partition in generation %d", m.Name, e.Generation)
				}
			case EventCommitted:
				c.checkTold(u, m, e)
			case EventFolded:
				c.checkFolded(u, m, e)
			}
		}
	}
}

// checkEnds checks that each ownership, and the member itself, came to an end with a name (I6).
func (c *checker) checkEnds(m Member) {
	open := map[stream.Partition]Event{}
	stopped := false
	for _, e := range m.Events {
		switch e.Kind {
		case EventAssigned:
			if before, ok := open[e.Partition]; ok {
				c.violate("I6", "R13: a revoke tears down", e.Partition, -1, nil,
					"member %s was granted ownership %d while its ownership %d had not ended", m.Name, e.Ownership, before.Ownership)
			}
			open[e.Partition] = e
		case EventRevoked, EventLost:
			if e.Kind == EventLost && e.Cause == "" {
				c.violate("I6", "", e.Partition, -1, nil, "member %s lost ownership %d without a cause", m.Name, e.Ownership)
			}
			if before, ok := open[e.Partition]; !ok || before.Ownership == e.Ownership {
				delete(open, e.Partition)
			}
		case EventStopped:
			stopped = true
		}
	}
	if m.Killed {
		return
	}
	if !stopped && len(m.Events) > 0 {
		c.violate("I6", "", stream.Partition{}, -1, nil, "member %s has neither stopped nor been killed", m.Name)
	}
	for p, e := range open {
		c.violate("I6", "every ownership ends: revoked, lost, or with the member", p, -1, nil, "ownership %d of member %s never ended", e.Ownership, m.Name)
	}
}

// checkRestores checks that nothing was committed between a restore and the first commit that follows
// it (I3): the owner has not seen that, and folds on without it. Where it cannot be told which commit is
// the first one, as several are of one offset, nothing is said.
func (c *checker) checkRestores(of map[stream.Partition]*unit, m Member) {
	restored := map[stream.Partition]Event{}
	for _, e := range m.Events {
		start, waits := restored[e.Partition]
		switch {
		case e.Kind == EventRestored:
			restored[e.Partition] = e
			continue
		case e.Kind != EventCommitted || !waits || of[e.Partition] == nil:
			continue
		}
		delete(restored, e.Partition)
		u := of[e.Partition]
		at := u.committedAt(e.Offset)
		if u.snapshots.Compacted || !c.m.fenced || len(at) != 1 || at[0] == 0 {
			continue
		}
		before, commit := u.progress[at[0]-1], u.progress[at[0]]
		if before.next() > start.Offset && before.Incarnation == commit.Incarnation {
			c.violate("I3", "R12: a takeover ends what the last owner left open", u.snapshots.Partition, before.at, nil,
				"offset %d was committed by member %s after member %s had restored up to %d", before.next(), before.MemberID, m.Name, start.Offset)
		}
	}
}

// checkTold checks that what a member took for committed is in the log (I5).
func (c *checker) checkTold(u *unit, m Member, e Event) {
	if u.snapshots.Compacted {
		return // the progress record of then may be gone
	}
	if u.committedAt(e.Offset) != nil {
		return
	}
	c.violate("I5", "R5: an unknown outcome is read back, never guessed", e.Partition, e.Offset, nil,
		"member %s was told that offset %d is committed, and no committed transaction has it", m.Name, e.Offset)
}

// checkFolded checks what a fold was given: the record is one that is to be folded, and the state the
// one that the records before it give, committed yet or not.
func (c *checker) checkFolded(u *unit, m Member, e Event) {
	if u.replay.from > e.Offset {
		return // of an earlier incarnation
	}
	i, ok := u.replay.at[e.Offset]
	if !ok {
		invariant := "I2"
		if s := u.replay.statuses[e.Offset]; s == Aborted || s == Open {
			invariant = "I5"
		}
		c.violate(invariant, "inputs are read under read_committed", e.Partition, e.Offset, e.Key,
			"member %s has folded a record that the input does not have as committed", m.Name)
		return
	}
	step := u.replay.steps[i]
	if step.passed || u.incarnation > 0 {
		return // before it was skipped, or perhaps under another fold version
	}
	if step.key != string(e.Key) {
		c.violate("I2", "", e.Partition, e.Offset, e.Key, "member %s has folded the record as another key's, not of %q", m.Name, step.key)
		return
	}
	got := value{has: e.Has, state: e.State}
	if got.same(step.before) {
		return
	}
	invariant, what := c.explain(u, step.key, e.Offset-1, got)
	if c.abortedSnapshot(u, e.Key, got) {
		invariant, what = "I5", ": it is that of a snapshot that was aborted"
	}
	c.violate(invariant, "", e.Partition, e.Offset, e.Key, "member %s has folded the record on %v, and the records before it give %v%s", m.Name, got, step.before, what)
}

// abortedSnapshot reports whether a state is that of an aborted snapshot of the key, and of no other.
func (c *checker) abortedSnapshot(u *unit, key []byte, v value) (found bool) {
	for _, r := range u.snapshots.Records {
		if !v.has || snapshot.Reserved(r.Key) {
			continue
		}
		rec, err := snapshot.Decode(r.Record)
		if err != nil || !bytes.Equal(rec.Key, key) || rec.Kind != snapshot.State || !bytes.Equal(rec.Value, v.state) {
			continue
		}
		if r.Status == Committed {
			return false
		}
		found = true
	}
	_, given := u.replay.stateAt(string(key), v)
	return found && !given
}
