package holdfasttest

import (
	"math"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/snapshot"
)

// scan goes over the committed records of one snapshot partition, in the order of the log.
type scan struct {
	c *checker
	u *unit

	stored      map[string]persisted
	before      map[string]bool  // keys whose newest record is a snapshot of before the last rebuild
	seen        int64            // steps of the replay below it are in touched
	next        int              // the first step at or above seen
	behind      map[string]int64 // keys whose newest record below seen is not persisted → its offset
	known       int64            // committed before the transaction that is being read, -1 none
	incarnation uint64
	commits     []commit // so far
}

// persisted is the newest snapshot of a key.
type persisted struct {
	applied   int64
	steps     uint64
	value     value
	tombstone bool
}

// checkLog checks each snapshot against the input (I2), each committed offset against the snapshots
// before it (I1), and the owners' order (I3, I8).
func (c *checker) checkLog(u *unit) {
	s := &scan{c: c, u: u, stored: map[string]persisted{}, before: map[string]bool{}, behind: map[string]int64{}, known: -1}
	ends := map[int64]commit{}
	for _, p := range u.progress {
		ends[p.at] = p
	}
	for _, r := range u.snapshots.Records {
		if r.Status != Committed {
			continue
		}
		if fence.IsProgressKey(r.Key) {
			if p, ok := ends[r.Offset]; ok {
				s.commit(p)
			}
			continue
		}
		s.snapshot(r)
	}
	if u.snapshots.Compacted && len(u.progress) > 0 {
		s.covered(u.progress[len(u.progress)-1])
	}
}

// snapshot checks one record of a key.
func (s *scan) snapshot(r Record) {
	c, at := s.c, s.u.snapshots.Partition
	rec, err := snapshot.Decode(r.Record)
	if err != nil {
		c.violate("I2", "", at, r.Offset, r.Key, "the record is no snapshot: %v", err)
		return
	}
	if !c.m.stateful {
		c.violate("I2", "", at, r.Offset, r.Key, "a component without state has written a snapshot")
		return
	}
	if rec.Incarnation < s.incarnation {
		c.violate("I3", "a rebuild raises the incarnation", at, r.Offset, rec.Key,
			"a snapshot of incarnation %d comes after the commit of incarnation %d", rec.Incarnation, s.incarnation)
		return
	}
	if rec.Incarnation < s.u.incarnation {
		s.before[string(rec.Key)] = rec.Kind != snapshot.Tombstone
		return // from before the last rebuild, which no restore reads
	}
	if rec.Kind == snapshot.Tombstone && len(rec.Applied) == 1 && rec.Applied[0] < 0 {
		s.dropped(r.Offset, rec.Key)
		return
	}
	delete(s.before, string(rec.Key))
	if len(rec.Applied) != 1 {
		c.violate("I2", "", at, r.Offset, rec.Key, "the snapshot has %d applied offsets, and the flow one input", len(rec.Applied))
		return
	}
	p := persisted{applied: rec.Applied[0], steps: rec.Steps, tombstone: rec.Kind == snapshot.Tombstone}
	switch rec.Kind {
	case snapshot.State:
		p.value = value{has: true, state: rec.Value}
	case snapshot.Deleted, snapshot.Tombstone:
		p.value = value{deleted: true}
	case snapshot.NoState:
	}
	before, had := s.stored[string(rec.Key)]
	s.applied(r.Offset, rec.Key, &p)
	if !had {
		before.applied = -1
	}
	s.after(r.Offset, rec.Key, p, before)
	if p.tombstone {
		s.tombstone(r.Offset, rec.Key, p, before, had)
	}
	s.stored[string(rec.Key)] = p
	if c := s.u.replay.keys[string(rec.Key)]; p.applied < before.applied {
		// What had been persisted is behind again.
		if _, n := s.u.replay.below(string(rec.Key), s.seen); n > 0 && c[n-1].offset > p.applied {
			s.behind[string(rec.Key)] = c[n-1].offset
		}
	}
}

// applied checks the state of a snapshot against what the input gives at its applied offset.
func (s *scan) applied(offset int64, key []byte, p *persisted) {
	c, at, k := s.c, s.u.snapshots.Partition, string(key)
	want, ok := s.u.replay.changedAt(k, p.applied)
	if !ok {
		invariant, what := "I2", "no record of the key there changed its state"
		switch s.u.replay.statuses[p.applied] {
		case Aborted:
			invariant, what = "I5", "the record there was aborted"
		case Open:
			invariant, what = "I5", "the record there is of a transaction that has not ended"
		case Unknown:
			what = "the input has no record there"
		case Committed:
		}
		c.violate(invariant, "", at, offset, key, "the snapshot says that input offset %d was applied: %s", p.applied, what)
		return
	}
	if !p.value.same(want) && p.value.has {
		if again, err := c.m.canonical(p.value.state); err == nil {
			p.value.state = again
		}
	}
	if p.value.same(want) {
		return
	}
	invariant, what := s.c.explain(s.u, k, p.applied, p.value)
	c.violate(invariant, "", at, offset, key, "the state at applied offset %d is %v, and the input gives %v%s", p.applied, p.value, want, what)
}

// explain says what a wrong state is, if that can be told.
func (c *checker) explain(u *unit, key string, applied int64, got value) (invariant, what string) {
	if v, n := c.withAborted(u).below(key, applied+1); n > 0 && v.same(got) {
		return "I5", ": it has an aborted record in it"
	}
	if at, ok := u.replay.stateAt(key, got); ok {
		return "I2", ": it is the state of offset " + itoa(at)
	}
	return "I2", ""
}

// after checks a snapshot of a key against the one before it.
func (s *scan) after(offset int64, key []byte, p, before persisted) {
	c, at := s.c, s.u.snapshots.Partition
	if p.applied < before.applied {
		c.violate("I2", "R9: the applied offset of a key never falls", at, offset, key,
			"the applied offset falls from %d to %d: what lies between is lost to whoever restores", before.applied, p.applied)
		return
	}
	if s.u.snapshots.Compacted {
		return
	}
	_, below := s.u.replay.below(string(key), before.applied+1)
	_, upTo := s.u.replay.below(string(key), p.applied+1)
	folded := uint64(upTo - below)
	// A key whose tombstone was written begins to count anew, unless it was folded meanwhile.
	if p.steps != before.steps+folded && (!before.tombstone || p.steps != folded) {
		c.violate("I2", "a replay skips what a key has applied", at, offset, key,
			"%d steps were taken from applied offset %d to %d, where the input has %d", int64(p.steps-before.steps), before.applied, p.applied, folded)
	}
}

// dropped checks the tombstone of a key that a rebuild has dropped: there is a snapshot of before the rebuild, and
// none that counts.
func (s *scan) dropped(offset int64, key []byte) {
	last, had := s.stored[string(key)]
	if had && !last.tombstone || !had && !s.before[string(key)] && !s.u.snapshots.Compacted {
		s.c.violate("I2", "R30: a rebuild drops keys for readers too, and those alone that have not come again", s.u.snapshots.Partition, offset, key,
			"a tombstone is written for what a rebuild has dropped, and the key has no snapshot of before it, or one of after it")
	}
	delete(s.before, string(key))
}

// tombstone checks that a key is forgotten only when no replay can meet its records again.
func (s *scan) tombstone(offset int64, key []byte, p, before persisted, had bool) {
	const rule = "R20: a delete is two writes, the deletion and, when the committed offset has passed it, the tombstone"
	c, at := s.c, s.u.snapshots.Partition
	if c.m.atomic || s.u.snapshots.Compacted {
		return // the offset is in the same transaction, or what came before is gone
	}
	if !had || !before.value.deleted || before.tombstone || before.applied != p.applied {
		c.violate("I2", rule, at, offset, key, "a tombstone is written, and the deletion at input offset %d was not before it", p.applied)
		return
	}
	if s.known <= p.applied {
		c.violate("I2", rule, at, offset, key, "a tombstone is written while %d is committed, which is not past the deletion at %d", s.known, p.applied)
	}
}

// commit checks one progress record: the end of a transaction.
func (s *scan) commit(p commit) {
	s.witness(p)
	if uint64(p.Incarnation) > s.incarnation {
		s.incarnation = uint64(p.Incarnation)
		s.stored, s.behind, s.seen, s.next, s.known = map[string]persisted{}, map[string]int64{}, 0, 0, -1
	}
	if uint64(p.Incarnation) == s.u.incarnation && !s.u.snapshots.Compacted {
		s.covered(p)
	}
	s.known = p.next()
	s.commits = append(s.commits, p)
}

// covered checks that whatever is below the offset of p is in the snapshots (I1).
func (s *scan) covered(p commit) {
	c, r := s.c, s.u.replay
	if end := max(s.u.log.End, r.lastAccepted()+1); p.next() > end {
		c.violate("I1", "", s.u.snapshots.Partition, p.at, nil, "offset %d is committed, and the input ends at %d", p.next(), end)
	}
	for ; s.next < len(r.steps) && r.steps[s.next].offset < p.next(); s.next++ {
		step := r.steps[s.next]
		if err := r.failed[step.offset]; err != nil {
			c.violate("I2", "", s.u.input, step.offset, nil,
				"the committed offset has passed the record, whose step fails (%v), and nothing says that it was skipped or dead-lettered", err)
		}
		if step.changed {
			s.behind[step.key] = step.offset
		}
	}
	s.seen = max(s.seen, p.next())
	for key, offset := range s.behind {
		have, ok := s.stored[key]
		if ok && have.applied >= offset {
			delete(s.behind, key)
			continue
		}
		want, _ := r.below(key, p.next())
		if have.value.same(want) {
			continue
		}
		at := int64(-1)
		if ok {
			at = have.applied
		}
		c.violate("I1", "R17: the committed offset respects holds", s.u.snapshots.Partition, p.at, []byte(key),
			"offset %d is committed, and the key's record at %d is in no snapshot (newest applied offset: %d)", p.next(), offset, at)
		delete(s.behind, key) // told once
	}
}

// witness checks whose commit p is, against those before it (I3, I8).
func (s *scan) witness(p commit) {
	c, at := s.c, s.u.snapshots.Partition
	if p.Generation < 0 || p.MemberID == "" || p.Sequence == 0 || p.Nonce == 0 && c.m.fenced ||
		p.Group != c.m.group || p.Inputs[0].Topic != s.u.input.Topic || p.next() < 0 {
		c.violate("I8", "R2: every commit carries the token of a living member", at, p.at, nil,
			"the commit is of group %q, member %q, generation %d, ownership %x, sequence %d, input %s at %d",
			p.Group, p.MemberID, p.Generation, p.Nonce, p.Sequence, p.Inputs[0].Topic, p.next())
	}
	if !c.m.fenced {
		return
	}
	if len(s.commits) == 0 {
		if p.Sequence != 1 && !s.u.snapshots.Compacted {
			c.violate("I3", "", at, p.at, nil, "the first commit in the log is number %d of its ownership", p.Sequence)
		}
		return
	}
	last := s.commits[len(s.commits)-1]
	if p.Nonce != last.Nonce {
		for _, o := range s.commits {
			if o.Nonce == p.Nonce {
				c.violate("I3", "R2, R12: a stale owner's transaction is refused", at, p.at, nil,
					"ownership %x of member %s commits after ownership %x of member %s has taken the partition over", p.Nonce, p.MemberID, last.Nonce, last.MemberID)
				return
			}
		}
	}
	before := uint64(0)
	if p.Nonce == last.Nonce {
		before = last.Sequence
	}
	if gap := p.Sequence != before+1; gap && !s.u.snapshots.Compacted || p.Sequence <= before {
		c.violate("I3", "R5: an unknown outcome is read back, never guessed", at, p.at, nil,
			"commit %d of ownership %x comes after its commit %d", p.Sequence, p.Nonce, before)
	}
	if p.Generation < last.Generation && p.Nonce != last.Nonce {
		c.violate("I3", "R2: the offset is bound to the member and its generation", at, p.at, nil,
			"a commit of generation %d comes after one of generation %d", p.Generation, last.Generation)
	}
	if p.next() < last.next() && p.Incarnation == last.Incarnation {
		c.violate("I3", "R9: the committed offset never falls", at, p.at, nil, "the committed offset falls from %d to %d", last.next(), p.next())
	}
}

// checkEnd compares the group's committed offset with the last commit and with the end of the input.
func (c *checker) checkEnd(u *unit) {
	end := max(u.log.End, u.replay.lastAccepted()+1)
	next := u.next()
	if next > end {
		c.violate("I1", "", u.input, next, nil, "the committed offset is %d, and the input ends at %d", next, end)
	}
	progress := int64(-1)
	if len(u.progress) > 0 {
		progress = u.progress[len(u.progress)-1].next()
	}
	switch {
	case next > progress && (progress >= 0 || next > 0):
		c.violate("I1", "", u.input, next, nil, "the committed offset is %d, and the last commit in %s is of %d", next, u.snapshots.Partition, progress)
	case next < progress && c.m.fenced:
		c.violate("I3", "R2: every transaction carries the offset", u.input, next, nil,
			"the committed offset is %d, and the last commit in %s is of %d", next, u.snapshots.Partition, progress)
	case next >= 0 && c.m.fenced && next == progress:
		c.checkMetadata(u)
	}
	c.checkSeen(u)
	c.checkReached(u, max(next, 0))
}

// checkSeen checks the committed offsets as they were seen during the run: they never fall, but for a
// rebuild, and each is one that a transaction has committed.
func (c *checker) checkSeen(u *unit) {
	last := int64(-1)
	for _, o := range c.h.Offsets {
		if o.Partition != u.input || o.Next < 0 {
			continue
		}
		if o.Next < last && u.incarnation == 0 {
			c.violate("I3", "R9: the committed offset never falls", u.input, o.Next, nil, "the committed offset falls from %d to %d", last, o.Next)
		}
		if o.Next != u.next() && c.m.fenced && !u.snapshots.Compacted && len(u.committedAt(o.Next)) == 0 {
			c.violate("I1", "", u.input, o.Next, nil, "the committed offset was %d, and no commit in %s has it", o.Next, u.snapshots.Partition)
		}
		last = o.Next
	}
}

// checkMetadata checks that the committed offset names the last commit.
func (c *checker) checkMetadata(u *unit) {
	nonce, sequence, ok := parseMetadata(u.final.Metadata)
	last := u.progress[len(u.progress)-1]
	switch {
	case !ok:
		c.violate("I8", "", u.input, u.final.Next, nil, "the committed offset's metadata is %q, which names no commit", u.final.Metadata)
	case nonce != last.Nonce || sequence != last.Sequence:
		c.violate("I3", "", u.input, u.final.Next, nil, "the committed offset is of commit %d of ownership %x, and the last progress record of commit %d of %x",
			sequence, nonce, last.Sequence, last.Nonce)
	}
}

// checkReached checks that nothing is left to fold (I7), unless the run says why.
func (c *checker) checkReached(u *unit, next int64) {
	if c.h.Unfinished != "" || c.stopped() {
		return
	}
	left, first := 0, int64(math.MaxInt64)
	for _, s := range u.replay.steps {
		if s.offset >= next {
			left, first = left+1, min(first, s.offset)
		}
	}
	if left > 0 {
		c.violate("I7", "", u.input, first, nil, "%d records from here on were never committed (the committed offset is %d), and nothing says why: "+
			"if the run was interrupted early, Collect the history, say so in its Unfinished, and Check it", left, u.next())
	}
}

// stopped reports whether a member has told that it ended with an error.
func (c *checker) stopped() bool {
	for _, m := range c.h.Members {
		for _, e := range m.Events {
			if e.Kind == EventStopped && e.Cause != "" {
				return true
			}
		}
	}
	return false
}
