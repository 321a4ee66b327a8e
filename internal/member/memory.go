package member

import "github.com/holdfast-go/holdfast/stream"

// What this process knows about single records, over its ownerships of their partitions.

// attempts is how often the step of one record has failed, over the ownerships of this process.
type attempts struct {
	offset int64
	count  int
}

// rememberAttempts keeps the count for the next ownership, whose engine counts from 1 again: a policy
// that retries a few times would else never come to its end.
func (m *Member) rememberAttempts(p stream.Partition, offset int64, count int) {
	m.mu.Lock()
	m.retried[p] = attempts{offset, count}
	m.mu.Unlock()
}

func (m *Member) attemptsBefore(p stream.Partition, offset int64) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.retried[p]; a.offset == offset {
		return a.count
	}
	return 0
}

// rememberSkip keeps a policy's decision for the next ownership of this process.
func (m *Member) rememberSkip(p stream.Partition, offset int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.skipped[p] == nil {
		m.skipped[p] = map[int64]bool{}
	}
	m.skipped[p][offset] = true
}

func (m *Member) skips(p stream.Partition, from int64) map[int64]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := map[int64]bool{}
	for offset := range m.skipped[p] {
		if offset >= from {
			kept[offset] = true
		}
	}
	m.skipped[p] = kept
	out := make(map[int64]bool, len(kept))
	for offset := range kept {
		out[offset] = true
	}
	return out
}

// rememberRefusal keeps why the step of a record cannot be committed, for the next ownership: the
// state has gone back by then, and the policy is asked before the record is folded again.
func (m *Member) rememberRefusal(p stream.Partition, offset int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused[p] == nil {
		m.refused[p] = map[int64]error{}
	}
	m.refused[p][offset] = err
}

// takeRefusal returns and forgets it.
func (m *Member) takeRefusal(p stream.Partition, offset int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.refused[p][offset]
	delete(m.refused[p], offset)
	return err
}

// refusals returns how many there are, after dropping those of records that are committed, by whomever.
func (m *Member) refusals(p stream.Partition, committed int64) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for offset := range m.refused[p] {
		if offset < committed {
			delete(m.refused[p], offset)
		}
	}
	return len(m.refused[p])
}
