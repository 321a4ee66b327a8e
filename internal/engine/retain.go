package engine

// Retain takes the engine out of an ownership with its states, so that Start can take it into another
// one: of the same partition, at the offset that is committed. It reports whether that is possible,
// which it is only if memory holds exactly what is committed; else nothing has changed, and the memory
// is to be dropped.
//
// Deletions that wait for their tombstone are kept with the states. Without them a replay would bring
// keys back, as it would after a restore that left them out (see Committed).
func (e *Engine[S]) Retain() bool {
	if !e.clean() {
		return false
	}
	e.started, e.retained = false, true
	e.skip, e.single, e.kept = nil, nil, nil
	// A record that comes again under another ownership counts its failures from 1, as after a restore.
	e.failedAt, e.attempts = -1, 0
	e.outputs, e.wholeBytes, e.hurried, e.alone = nil, 0, false, false
	return true
}

// clean reports whether everything that was folded is known to be committed, and nothing more.
func (e *Engine[S]) clean() bool {
	return e.started && !e.tainted && e.batch == nil && len(e.due.items) == 0 && e.holds.len == 0 &&
		len(e.outputs) == 0 && e.committed >= 0 && e.next == e.committed
}
