package engine

// Read tells that the log was read up to an offset, and that what lies between the next offset to fold and that
// one is nothing to fold: the markers of transactions, records of aborted ones, and what compaction has removed.
// epoch is a leader epoch whose log reaches up to it, -1 if none is known. The offset to commit follows, as over a
// record that was filtered (R25):
//
//  1. The last record of an idle input is folded, and its offset committed. The marker of its transaction is behind it.
//  2. Retention empties the log: its first offset is the one behind the marker, and so above the committed one.
//  3. The next owner cannot tell that from records which were deleted before they were folded, and stops.
func (e *Engine[S]) Read(to int64, epoch int32) {
	if !e.started {
		violated(StartOnce, "read up to %d before Start", to)
	}
	if to <= e.next {
		return
	}
	if e.next == e.first { // a fetch that was under way may still bring records from below (see admit)
		e.first = to
	}
	e.next, e.epoch = to, epoch
}
