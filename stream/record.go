package stream

import (
	"fmt"
	"time"
)

// Partition names one partition of one topic.
type Partition struct {
	Topic     string
	Partition int32
}

// String returns "topic/partition", the form used in logs and errors.
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Header is one record header. Kafka keeps the order of headers and allows repeated keys.
type Header struct {
	Key   string
	Value []byte // nil: null, which is not empty
}

// Record is one record as it was read from Kafka. Its bytes belong to the reader: a function that
// is handed a Record must not change them, and may keep them only where its own documentation says
// so.
type Record struct {
	Topic       string
	Partition   int32
	Offset      int64
	LeaderEpoch int32 // leader epoch of the batch the record came in, -1 if unknown
	// Timestamp is as written by the producer or the broker, whatever that clock said: any number of
	// milliseconds, and -1 for none. One outside the years 1678 to 2261 (see Carried) is exact up to 4.5
	// million years from 1970; further off it is another such time or, for one number in 15,625, any time.
	Timestamp time.Time
	Key       []byte // nil: the record has no key; empty is a key
	Value     []byte // nil: a tombstone
	Headers   []Header
}

// Message is one record to be written. What it holds is not copied: its bytes and headers must not be
// changed after it was handed over, since it may be sent much later, and again.
type Message struct {
	Topic     string
	Key       []byte // nil: none; empty is a key
	Value     []byte // nil: a tombstone
	Headers   []Header
	Timestamp time.Time // zero: the time at which it is sent. Others must be Carried
}

// SnapshotHeader is the name of the header that records of a snapshot topic have. It is dropped from what
// folds and pipes send: a header that was copied from an input would else make a state of it.
const SnapshotHeader = "holdfast"

// BatchBytes returns what m takes in a batch of its own without compression. MaxBatchBytes says how much that may be.
func (m Message) BatchBytes() int64 {
	const batch = 61
	n := int64(3) // attributes, and the first record's differences of timestamp and offset
	n += sized(len(m.Key), m.Key == nil) + sized(len(m.Value), m.Value == nil) + varint(int64(len(m.Headers)))
	for _, h := range m.Headers {
		n += sized(len(h.Key), false) + sized(len(h.Value), h.Value == nil)
	}
	return batch + varint(n) + n
}

// MaxBatchBytes returns the BatchBytes of the largest message that the Kafka client writes to a topic with a
// max.message.bytes of limit: two bytes less at most, since it counts four bytes for a length that takes fewer.
func MaxBatchBytes(limit int) int64 { return int64(limit) - 4 + LengthBytes(limit) }

// LengthBytes returns what the client counts for the length of a batch of n bytes.
func LengthBytes(n int) int64 {
	size := int64(1)
	for n++; n >= 1<<7; n >>= 7 {
		size++
	}
	return size
}

// sized is what bytes take behind their length, which is -1 for null.
func sized(n int, null bool) int64 {
	if null {
		return 1
	}
	return varint(int64(n)) + int64(n)
}

// varint is what a number from 0 on takes in zigzag.
func varint(n int64) int64 {
	size := int64(1)
	for n <<= 1; n >= 1<<7; n >>= 7 {
		size++
	}
	return size
}

// Action is what happens to a record whose step failed.
type Action int

const (
	// Stop ends the partition with an error that names the record; what was folded before it is
	// committed, nothing past it.
	Stop Action = iota
	// Skip leaves the key's state as it was before the record and goes on with the next one. The
	// record counts as consumed: its offset is committed like any other.
	Skip
	// Retry runs the step again after a pause that doubles from 100 ms up to 30 s.
	Retry
	// DeadLetter writes the record, its bytes unchanged, to the dead-letter topic of the component's
	// policy and goes on with the next one. The offset does not pass the record before the letter is
	// written: it is in the same transaction where outputs are, and acknowledged before it elsewhere.
	DeadLetter
	// RetryThenDeadLetter is Retry until the record has failed as often as the policy's Attempts says,
	// with the policy's pauses, and DeadLetter then.
	RetryThenDeadLetter
)

// String returns the lower-case name of the action.
func (a Action) String() string {
	switch a {
	case Stop:
		return "stop"
	case Skip:
		return "skip"
	case Retry:
		return "retry"
	case DeadLetter:
		return "dead-letter"
	case RetryThenDeadLetter:
		return "retry-then-dead-letter"
	}
	return fmt.Sprintf("action(%d)", int(a))
}

// RecordError tells an error policy which record failed, how often and why.
type RecordError struct {
	Record Record
	// Attempt is 1 for the first failure of the record. It goes on counting when the failure made the
	// partition be restored; another process, or a later ownership for another reason, begins with 1. A dead
	// letter that its topic refuses is no failure of the record: it is written with less, and the policy, which
	// has decided, is not asked again.
	Attempt  int
	Panicked bool // the fold panicked; Err's text has the value and, after StackMark, the stack
	Err      error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("record %s/%d offset %d, attempt %d: %v",
		e.Record.Topic, e.Record.Partition, e.Record.Offset, e.Attempt, e.Err)
}

// Unwrap returns the error of the fold.
func (e *RecordError) Unwrap() error { return e.Err }
