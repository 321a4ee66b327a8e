package holdfasttest

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// Status is what became of a record in its log.
type Status int

const (
	// Unknown is the zero value. The checker refuses records that have it.
	Unknown Status = iota
	// Committed: every reader sees the record.
	Committed
	// Aborted: its transaction was aborted, and a reader under read_committed never sees it.
	Aborted
	// Open: its transaction had not ended when the log was read.
	Open
)

var statusNames = []string{"unknown", "committed", "aborted", "open"}

// String returns the lower-case name of the status.
func (s Status) String() string {
	if s < 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("status(%d)", int(s))
	}
	return statusNames[s]
}

// Record is one record of a log, with what became of it.
type Record struct {
	stream.Record
	Status Status
}

// Log is one partition of a topic, in offset order.
type Log struct {
	Partition stream.Partition
	// Start is the log's first offset, End its high watermark.
	Start, End int64
	// Compacted tells that offsets are missing within the log. What only the missing records could
	// show is then left unchecked: the offsets committed on the way, and the steps between them.
	Compacted bool
	// From is the first offset of an input that was to be folded, where it is neither the log's first nor
	// told by the first progress record: after a flow was started with AdoptEmpty. 0: as Start says.
	From    int64
	Records []Record
}

// Offset is a committed offset of the group.
type Offset struct {
	Partition stream.Partition
	Next      int64
	Metadata  string
}

// Member is what one process has told of itself.
type Member struct {
	Name   string
	Events []Event // in the order in which they happened
	// Killed tells that the process was ended from outside: its ownerships have no end of their own.
	Killed bool
}

// The kinds of an Event.
const (
	EventAssigned     = "assigned"
	EventRestored     = "restored"
	EventFolded       = "folded" // the fold was called; State is what it was given
	EventCommitted    = "committed"
	EventRefused      = "refused"
	EventFailed       = "failed"
	EventDeadLettered = "dead-lettered"
	EventRevoked      = "revoked"
	EventLost         = "lost"
	EventStalled      = "stalled"
	EventStopped      = "stopped" // Run returned, with Cause if it was an error
)

// Event is one thing that a member has told. Fields that do not apply are zero.
type Event struct {
	Member     string           `json:"member"`
	At         time.Time        `json:"at"`
	Kind       string           `json:"kind"`
	Partition  stream.Partition `json:"partition,omitzero"` // of the input
	Ownership  int64            `json:"ownership,omitempty"`
	Generation int32            `json:"generation,omitempty"`
	// Offset is the record's for folded, failed and dead-lettered; the committed offset for assigned and
	// committed; the first to be folded for restored.
	Offset int64         `json:"offset,omitempty"`
	Key    []byte        `json:"key,omitzero"`   // folded; empty is a key
	Has    bool          `json:"has,omitempty"`  // folded: the key had a state
	State  []byte        `json:"state,omitzero"` // folded: that state, encoded
	Action stream.Action `json:"action,omitempty"`
	Cause  string        `json:"cause,omitempty"`
	Final  bool          `json:"final,omitempty"`
	// Retained: restored from what the member had kept since it owned the partition last.
	Retained bool `json:"retained,omitempty"`
}

// History is all that is known of a run. It is plain data: Collect reads one from a cluster, and a
// test may make one by hand.
type History struct {
	Inputs      []Log
	Snapshots   []Log // of a pipe: the progress topic
	Outputs     []Log
	DeadLetters []Log
	// Offsets are the group's committed offsets in the order in which they were seen; the last one of a
	// partition is the final one.
	Offsets []Offset
	Members []Member
	// Unfinished says why the run did not have to reach the end of its input, as one that was interrupted
	// early; I7 is not checked then. Collect leaves it "": the whole input was to be committed.
	Unfinished string
}

// Violation is one place at which a history breaks an invariant.
type Violation struct {
	Invariant string // "I1" to "I8"
	Rule      string // what the product does against it, as a hint; may be ""
	Partition stream.Partition
	Offset    int64 // in Partition; -1: the partition as a whole
	Key       []byte
	What      string
}

// String returns the violation in one line. It has the key, as it is about test data.
func (v Violation) String() string {
	at := v.Partition.String()
	if v.Partition.Topic == "" {
		at = "the run"
	}
	if v.Offset >= 0 {
		at += fmt.Sprintf(" offset %d", v.Offset)
	}
	if v.Key != nil {
		at += fmt.Sprintf(" key %q", v.Key)
	}
	text := fmt.Sprintf("%s: %s: %s", v.Invariant, at, v.What)
	if v.Rule != "" {
		text += " (" + v.Rule + ")"
	}
	return text
}
