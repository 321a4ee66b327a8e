package member

import (
	"maps"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/stream"
)

// note is what this process knows about one record that is not committed yet, over its ownerships of
// the partition: an engine begins each of them knowing nothing.
type note struct {
	failures int         // how often its step has failed or could not be committed
	refusal  error       // why its step cannot be committed; nil: it may be tried
	panicked bool        // of refusal
	skipped  bool        // the policy has skipped it
	lettered bool        // the breaker was asked about its letter
	recalled bool        // the breaker has counted a letter of it that an earlier run wrote
	without  dlq.Refused // what its letter was refused for
}

// noteLocked returns the note about a record, and makes it if there is none.
func (m *Member) noteLocked(p stream.Partition, offset int64) *note {
	if m.notes[p] == nil {
		m.notes[p] = map[int64]*note{}
	}
	n := m.notes[p][offset]
	if n == nil {
		n = &note{}
		m.notes[p][offset] = n
	}
	return n
}

// countFailure counts one more failure of a record: a policy that retries a few times would never come
// to its end if each ownership counted from 1 again.
func (m *Member) countFailure(p stream.Partition, offset int64) (failures int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.noteLocked(p, offset)
	n.failures++
	return n.failures
}

// rememberSkip keeps a policy's decision for the next ownership of this process.
func (m *Member) rememberSkip(p stream.Partition, offset int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.noteLocked(p, offset)
	n.skipped, n.refusal = true, nil
}

// skips returns the records from an offset on that the policy has skipped.
func (m *Member) skips(p stream.Partition, from int64) map[int64]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[int64]bool{}
	for offset, n := range m.notes[p] {
		if n.skipped && offset >= from {
			out[offset] = true
		}
	}
	return out
}

// rememberRefusal keeps why the step of a record cannot be committed, for the ownerships to come: the
// state has gone back by then, and the policy is asked before the record is folded again. It is kept
// until the record is committed or tried again, since the batch that has its letter may be refused for
// another record:
//
//  1. A batch is refused for record 1, which is dead-lettered under the next ownership.
//  2. The batch with that letter is refused for record 3. The state goes back once more.
//  3. Were record 1 folded as if nothing had been, its batch would be refused for it, and record 3
//     forgotten in turn: the two would take turns for ever.
func (m *Member) rememberRefusal(p stream.Partition, offset int64, err error, panicked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.noteLocked(p, offset)
	n.refusal, n.panicked = err, panicked
}

// refusal returns what is remembered of a record whose step cannot be committed; nil: it may be tried.
func (m *Member) refusal(r stream.Record) *stream.RecordError {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.notes[stream.Partition{Topic: r.Topic, Partition: r.Partition}][r.Offset]
	if n == nil || n.refusal == nil {
		return nil
	}
	return &stream.RecordError{Record: r, Attempt: n.failures, Err: n.refusal, Panicked: n.panicked}
}

// hasRefusals reports whether there is a record of a partition whose step cannot be committed. New ones
// come with the end of an ownership only.
func (m *Member) hasRefusals(p stream.Partition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.notes[p] {
		if n.refusal != nil {
			return true
		}
	}
	return false
}

// forgetRefusal has the record tried again.
func (m *Member) forgetRefusal(p stream.Partition, offset int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.notes[p][offset]; n != nil {
		n.refusal = nil
	}
}

// firstLetter reports whether the letter of a record is its first one: a letter that went back with its
// batch is written again, and is no second one for the breaker.
func (m *Member) firstLetter(p stream.Partition, offset int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.noteLocked(p, offset)
	first := !n.lettered
	n.lettered = true
	return first
}

// rememberRecalled keeps of which records from an offset on the breaker has counted the letter of an earlier run.
func (m *Member) rememberRecalled(p stream.Partition, from int64, offsets map[int64]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for offset := range offsets {
		if offset >= from {
			m.noteLocked(p, offset).recalled = true
		}
	}
}

// recalledLetter reports whether the breaker has counted a letter of a record that an earlier run wrote.
func (m *Member) recalledLetter(p stream.Partition, offset int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noteLocked(p, offset).recalled
}

// forget drops what is known of records that are committed, by whomever.
func (m *Member) forget(p stream.Partition, below int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for offset := range m.notes[p] {
		if offset < below {
			delete(m.notes[p], offset)
		}
	}
	for key, until := range m.single[p] {
		if until < below {
			delete(m.single[p], key)
		}
	}
}

// rememberKey has the steps of a key up to an offset committed one by one, in the ownerships to come. It
// reports whether that is more than was known.
func (m *Member) rememberKey(p stream.Partition, key []byte, until int64) (more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.single[p][string(key)]; ok && known >= until {
		return false
	}
	if m.single[p] == nil {
		m.single[p] = map[string]int64{}
	}
	m.single[p][string(key)] = until
	return true
}

func (m *Member) singleKeys(p stream.Partition) map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.single[p])
}
