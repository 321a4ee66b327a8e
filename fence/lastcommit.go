package fence

import "context"

// LastCommit is the newest commit of a partition that a Writer knows of: one that it has made, or the
// one that Open and Adopt told of.
type LastCommit struct {
	Next            int64  // the committed input offset
	Nonce, Sequence uint64 // of the commit
	At              int64  // where its progress record is in the progress partition
}

// LastCommit returns the newest commit that the writer knows of, for a caller that keeps what it has in
// memory over a rebalance and wants to know later whether that is still what is committed. ok is false
// where offset and progress record are not known to be of one commit of a Writer: there is nothing then
// that later could be compared. It waits for a transaction that is in flight, until ctx ends.
func (w *Writer) LastCommit(ctx context.Context) (c LastCommit, ok bool) {
	select {
	case <-w.turn:
	case <-ctx.Done():
		return LastCommit{}, false
	}
	defer func() { w.turn <- struct{}{} }()
	k := w.known
	if k.from < 1 || k.offset != k.progress || k.offset.nonce == 0 {
		return LastCommit{}, false
	}
	return LastCommit{Next: k.next, Nonce: k.offset.nonce, Sequence: k.offset.sequence, At: k.from - 1}, true
}
