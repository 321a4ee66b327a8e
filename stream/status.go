package stream

import (
	"fmt"
	"strings"
	"time"
)

// Status is what a component was doing when it was asked: a copy, to be printed or marshalled to JSON. No field
// is a pointer or a duration. An offset that is not known is -1, and a time that is not known is zero and left
// out of the JSON. Texts of errors have what is not printable escaped, and are cut at 1,000 characters.
type Status struct {
	Group    string `json:"group"`
	MemberID string `json:"member_id,omitempty"` // "": not a member of the group at present
	// Generation is that of the member, under ServerSide its epoch; -1: not a member at present.
	Generation int32 `json:"generation"`
	Running    bool  `json:"running"` // Run was called and has not returned
	// Ready: the group has given the member its partitions, of which there may be none, and each of them is
	// restored. It says nothing of the lag. A rebalance that brings partitions makes it false until they are
	// restored; a loss of the membership, until there is another; the end of Run, for good.
	Ready      bool              `json:"ready"`
	Partitions []PartitionStatus `json:"partitions"` // those that are assigned, by topic and number
	// Throttled is the last answer by which a broker held a client of the component back, for a quota.
	Throttled ThrottleStatus `json:"throttled,omitzero"`
	// JoinRefused is what joining the group was last refused with, also if it has worked since.
	JoinRefused StatusError `json:"join_refused,omitzero"`
	// Stopped is why the component stops, or has stopped, with an error.
	Stopped StatusError `json:"stopped,omitzero"`
}

// Phase is what becomes of a partition at present.
type Phase string

// The phases. Only in PhaseFolding are records applied.
const (
	PhaseTakeover       Phase = "takeover"        // the takeover and the fetch of the committed offset are under way
	PhaseRestoring      Phase = "restoring"       // of a pipe: its progress records are read
	PhaseRestoreStalled Phase = "restore-stalled" // the restore makes no progress; Detail has the diagnosis
	PhaseFolding        Phase = "folding"         // of a pipe: processing. Also where there is nothing to fold
	PhasePaused         Phase = "paused"          // the error policy asked for a pause, up to PausedUntil
	PhaseInDoubt        Phase = "in-doubt"        // a transaction's outcome is unknown and read back
	PhaseInputStalled   Phase = "input-stalled"   // waits for an open transaction on the input; Detail names it
	PhaseHalted         Phase = "halted"          // the next batch cannot be read, and the other partitions go on; Detail says why
	PhaseDraining       Phase = "draining"        // is given up: what was folded is committed
	PhaseLost           Phase = "lost"            // Detail says why; it is granted anew, unless the component stops
)

// PartitionStatus is what is known of one input partition that is assigned. Next is exact; the numbers of
// memory and commits are at most a tenth of a second older while records are folded, and those of before the
// step while one is under way.
type PartitionStatus struct {
	Topic     string `json:"topic"` // of the input
	Partition int32  `json:"partition"`
	Ownership int64  `json:"ownership"` // number of the grant, as in the log
	Phase     Phase  `json:"phase"`
	Detail    string `json:"detail,omitempty"`
	// Next is the input offset that is read next: all records before it are applied. -1 before folding begins.
	Next int64 `json:"next"`
	// Committed is the committed offset, -1 if there is none. Holds keep it behind Next.
	Committed int64 `json:"committed"`
	// StableEnd is the input's last stable offset, up to which its records can be read, as the leader told it
	// last: with each fetch that brings records, and every ten seconds to a partition that gets none.
	StableEnd int64 `json:"stable_end"`
	// Lag is StableEnd less Next, -1 if either is not known. Offsets are not records: markers and aborted
	// records take offsets too.
	Lag         int64         `json:"lag"`
	Keys        int           `json:"keys"`        // keys in memory that have a state
	DirtyKeys   int           `json:"dirty_keys"`  // keys that wait for their snapshot, those in a commit under way left out
	OldestHold  int64         `json:"oldest_hold"` // the first input offset that is folded and not persisted, -1: none
	LastCommit  time.Time     `json:"last_commit,omitzero"`
	PausedUntil time.Time     `json:"paused_until,omitzero"`
	Restore     RestoreStatus `json:"restore,omitzero"` // while it is restored
	// LastRefusal is what a transaction was last refused with. Cause is that of Refused. It is kept where the
	// partition is lost by it and granted anew.
	LastRefusal StatusError `json:"last_refusal,omitzero"`
}

// RestoreStatus is the progress of a restore.
type RestoreStatus struct {
	Position int64 `json:"position"` // next offset of the snapshot partition to be read
	Target   int64 `json:"target"`   // high watermark captured at the start
	Records  int64 `json:"records"`
	Bytes    int64 `json:"bytes"`
}

// ThrottleStatus tells of a broker that holds the component's clients back.
type ThrottleStatus struct {
	Broker int32     `json:"broker"` // node id
	Host   string    `json:"host"`
	Until  time.Time `json:"until"` // what is past is over
}

// StatusError is an error at a time.
type StatusError struct {
	At    time.Time `json:"at"`
	Cause string    `json:"cause"` // a short name: one of Causes, of a refusal one of Refused.Cause
	Code  int16     `json:"code,omitempty"`
	Error string    `json:"error"`
}

// String returns a line for the member and one for each partition.
func (s Status) String() string {
	var b strings.Builder
	is := "not running"
	switch {
	case s.Ready:
		is = "ready"
	case s.Running:
		is = "not ready"
	}
	fmt.Fprintf(&b, "group %s: %s, generation %d, partitions %d", s.Group, is, s.Generation, len(s.Partitions))
	if !s.Throttled.Until.IsZero() {
		fmt.Fprintf(&b, ", throttled by broker %d (%s) until %s", s.Throttled.Broker, s.Throttled.Host, s.Throttled.Until.Format(time.RFC3339))
	}
	s.JoinRefused.append(&b, "join refused")
	s.Stopped.append(&b, "stopped")
	for _, p := range s.Partitions {
		b.WriteString("\n" + p.String())
	}
	return b.String()
}

// String returns one line.
func (p PartitionStatus) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d: %s", p.Topic, p.Partition, p.Phase)
	if p.Restore != (RestoreStatus{}) {
		fmt.Fprintf(&b, " %d of %d", p.Restore.Position, p.Restore.Target)
	}
	fmt.Fprintf(&b, ", next %d, committed %d, stable end %d, lag %d, keys %d, dirty %d, oldest hold %d",
		p.Next, p.Committed, p.StableEnd, p.Lag, p.Keys, p.DirtyKeys, p.OldestHold)
	if !p.PausedUntil.IsZero() {
		fmt.Fprintf(&b, ", paused until %s", p.PausedUntil.Format(time.RFC3339))
	}
	if p.Detail != "" {
		fmt.Fprintf(&b, ", %s", p.Detail)
	}
	p.LastRefusal.append(&b, "last refusal")
	return b.String()
}

func (e StatusError) append(b *strings.Builder, what string) {
	if !e.At.IsZero() {
		fmt.Fprintf(b, ", %s at %s (%s): %s", what, e.At.Format(time.RFC3339), e.Cause, e.Error)
	}
}
