package fence

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// absentFor is how long a topic may be unknown before that is taken for the truth. The client gives up
// after five answers, which is half a second:
//
//  1. An output topic is made, or a broker has just started. The metadata of the topic is there.
//  2. The broker that leads the partition has not heard of it yet, and says that there is no such topic.
//  3. The client has asked five times, and its records fail. A moment later the broker knows.
//
// The coordinator of the group, which refuses the offset of an input topic that it does not know, may
// be as late.
const absentFor = 15 * time.Second

// isAbsent reports whether err says that a topic does not exist, or not under the id that it had.
func isAbsent(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}

// absentYet reports whether err says that a topic is absent and that may still pass. It counts from the
// first such error since the last commit, or since another fault that is no record's.
func (w *Writer) absentYet(err error) bool {
	if !isAbsent(err) {
		return false
	}
	if w.absent.IsZero() {
		w.absent = time.Now()
	}
	return time.Since(w.absent) < min(absentFor, w.limit/4)
}
