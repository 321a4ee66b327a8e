package fence

import (
	"encoding/binary"

	"github.com/holdfast-go/holdfast/stream"
)

// startHeader of a progress record has the first offset of the progress partition's log, as its owner knows it. It is
// no field of the value, whose readers are strict; records of versions before it do not have it.
const startHeader = "holdfast.log-start"

// LogStart tells w the first offset of the progress partition's log, as its caller has found and accepted it. Each
// progress record then carries it. The start of a log that is compacted, and nothing else, never moves: one that has
// risen above the newest progress record's proves that records were deleted, which were the only ones of their keys.
// It is safe to call at any time. Without it the records say nothing of it.
func (w *Writer) LogStart(start int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logStart = &start
}

// StartHeaders returns what a progress record carries of the log's start beside its value.
func StartHeaders(start int64) []stream.Header {
	return []stream.Header{{Key: startHeader, Value: binary.BigEndian.AppendUint64(nil, uint64(start))}}
}

func (w *Writer) startHeaders() []stream.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logStart == nil {
		return nil
	}
	return StartHeaders(*w.logStart)
}

// ProgressLogStart returns where the log of the progress partition began when a progress record was written. ok is
// false if the record does not say.
func ProgressLogStart(r stream.Record) (start int64, ok bool) {
	for _, h := range r.Headers {
		if h.Key == startHeader && len(h.Value) == 8 {
			start = int64(binary.BigEndian.Uint64(h.Value))
			return start, start >= 0
		}
	}
	return 0, false
}
