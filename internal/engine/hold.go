package engine

// hold is one node of the list of holds: an offset that must not be committed past until what was
// folded from it on is persisted.
type hold struct {
	offset int64
	// epochBefore is committed along with offset: a leader epoch whose log reaches up to it. That is the
	// epoch of the record before, and after a gap the one of the held record itself:
	//
	//  1. A record of epoch 0 is folded, and the leader changes.
	//  2. Epoch 1 begins with a transaction that is aborted, or with a marker, and then has a record.
	//  3. Committed with epoch 0, the offset of that record lies behind the end of epoch 0: the next owner
	//     would take the log for truncated.
	epochBefore int32
	cleared     bool // the batch in flight clears it
	prev, next  *hold
}

// holds is a list ordered by offset. Nodes are appended at the back, as offsets rise, and are
// removed from anywhere. Removed nodes are kept for the next append, so that the list allocates
// no more than its greatest length.
type holds struct {
	front, back *hold
	free        *hold
	len         int
}

func (l *holds) append(offset int64, epochBefore int32) *hold {
	if l.back != nil && l.back.offset >= offset {
		violated(OffsetsRise, "hold %d after hold %d", offset, l.back.offset)
	}
	h := l.free
	if h == nil {
		h = new(hold)
	} else {
		l.free = h.next
	}
	*h = hold{offset: offset, epochBefore: epochBefore, prev: l.back}
	if l.back == nil {
		l.front = h
	} else {
		l.back.next = h
	}
	l.back = h
	l.len++
	return h
}

func (l *holds) remove(h *hold) {
	if h.prev == nil {
		l.front = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		l.back = h.prev
	} else {
		h.next.prev = h.prev
	}
	*h = hold{next: l.free}
	l.free = h
	l.len--
}

// least returns the first hold that the batch in flight does not clear, or nil. It passes over as
// many nodes as the batch has writes at most, and over none while no batch is in flight.
func (l *holds) least() *hold {
	h := l.front
	for h != nil && h.cleared {
		h = h.next
	}
	return h
}

// from is the offset of a hold, or of the one record that there is without one.
func (h *hold) from(offset int64) int64 {
	if h == nil {
		return offset
	}
	return h.offset
}
