package engine

// readOn now and then tells that the log was read over a part of the gap that follows: markers, what was
// aborted, what compaction has removed.
func (w *world) readOn() error {
	behind := w.e.Next() + 3
	if w.at < len(w.input) {
		behind = w.input[w.at].offset
	}
	if w.rng.IntN(3) > 0 {
		return nil
	}
	to := behind - w.rng.Int64N(3)
	want := max(to, w.e.Next())
	w.e.Read(to, -1)
	if w.e.Next() != want {
		return broken("next", "got %d after reading up to %d", w.e.Next(), to)
	}
	return nil
}
