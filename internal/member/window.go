package member

import "time"

// window bounds the bytes of outputs beside a transaction that wait for their acknowledgement. The client makes
// batches of what waits, up to what a topic takes, and gives a connection up that does not take a batch within
// its time limit of 10 s. Without a bound that can be for ever:
//
//  1. A thousand outputs of 1 kB are sent over a link of 60 kB a second. The client makes one batch of them.
//  2. After 10 s it has written 600 kB. It gives the connection up, and begins again with the same batch.
//
// So the window grows while acknowledgements are quick, and shrinks when they are not (R27).
type window struct {
	most    int64     // bytes that may wait
	waiting int64     // bytes that do
	full    bool      // something had to wait for room since the last change
	changed time.Time // when most was changed: what was sent before says nothing of it
}

const (
	windowFirst = 16 << 10
	windowLeast = 4 << 10
	windowQuick = time.Second     // to take a window in, or less
	windowSlow  = 4 * time.Second // or more
)

// fits reports whether there is room; a record that is larger than the window goes alone.
func (w *window) fits(size int64) bool {
	fits := w.waiting == 0 || w.waiting+size <= max(w.most, windowLeast)
	w.full = w.full || !fits
	return fits
}

// answered tells that a record of so many bytes that was sent at a time does not wait any more.
func (w *window) answered(size int64, sent, now time.Time) {
	w.waiting -= size
	if sent.Before(w.changed) {
		return
	}
	switch took := now.Sub(sent); {
	case took >= windowSlow && w.most > windowLeast:
		w.most = max(w.most/2, windowLeast)
	case took <= windowQuick && w.full && w.most < 1<<30:
		w.most *= 2
	default:
		return
	}
	w.full, w.changed = false, now
}
