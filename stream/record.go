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
	// Timestamp is as written by the producer or the broker, whatever that clock said. A time outside
	// the years 1678 to 2261 comes out as another one: the Kafka client counts nanoseconds.
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
	Timestamp time.Time // zero: the time at which it is sent
}

// BatchBytes returns the most that m takes in a batch of its own, which is what a topic's
// max.message.bytes is compared with.
func (m Message) BatchBytes() int64 {
	const batch, record, header = 61, 21, 10
	n := int64(batch+record) + int64(len(m.Key)) + int64(len(m.Value))
	for _, h := range m.Headers {
		n += header + int64(len(h.Key)) + int64(len(h.Value))
	}
	return n
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
	// partition be restored; another process, or a later ownership for another reason, begins with 1.
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
