// Command model is an exhaustive explicit-state check of Holdfast's commit protocol: one input partition, two
// processes that may each believe they own it, a group coordinator, a transaction coordinator with asynchronous
// markers, a compacted snapshot partition and the offsets partition.
//
// Three relabelings keep the state space finite and small without losing behaviour:
//   - a producer epoch is only ever compared with the coordinator's, so a holder keeps its relation to it
//     (current, previous, stale) and every bump relabels all holders;
//   - likewise a group token is valid, of an old generation, or of a member the coordinator does not know;
//   - a transaction id (ownership nonce and sequence) is only compared for equality, so ids are renamed after
//     every step in order of first appearance, and the two processes are interchangeable.
//
// A pause needs no transition of its own: a process that takes no step is paused.
package main

import "unsafe"

// Val is one key's encoded snapshot: applied offset, set of records folded since the last delete, kind.
type Val uint8

const (
	kindAbsent = iota
	kindLive
	kindDeleted   // D(N), "deleted at N": still has an applied offset
	kindTombstone // only in a batch: once committed the key is gone, since compaction may remove it at any time

	before = Val(1 << 7) // of before a rebuild: no state, but there for whoever else reads the topic
)

func mkVal(applied int, mask, kind uint8) Val { return Val(uint8(applied+1) | mask<<2 | kind<<5) }
func (v Val) applied() int                    { return int(v&3) - 1 }
func (v Val) mask() uint8                     { return uint8(v>>2) & 7 }
func (v Val) kind() uint8                     { return uint8(v>>5) & 3 }

// Batch is a closed commit batch: effects only, never live state.
type Batch struct {
	Keys uint8  // keys written
	Vals [2]Val // their values
	Off  uint8  // next offset: in the progress record and in TxnOffsetCommit
	Outs uint8  // outputs inside the transaction (FencedOutputs)
	ID   uint8  // nonce and sequence of this attempt
	Base uint8  // the committed transaction that the writer's memory is built on (checked, never read by the protocol)
}

// Relations of a held producer epoch to the coordinator's.
const (
	epNone = iota
	epCur
	epPrev // was current until an End bumped it: a retried EndTxn is still answered
	epStale
)

// Relations of a held group token to the coordinator's membership.
const (
	tokNone = iota
	tokValid
	tokOldGen
	tokUnknown
)

// Transaction coordinator states. "Complete" and "empty" are one.
const (
	txnEmpty = iota
	txnOngoing
	txnPrepCommit
	txnPrepAbort
)

const (
	ownNone = iota // gone
	ownHeld
	ownDraining
)

// Phases of an ownership. The Re phases resolve a fence or an unknown outcome (R4) with memory and batch kept.
const (
	phNone   = iota
	phInit   // takeover not yet answered
	phFetch  // next: stable committed offset
	phHW     // next: capture the high watermark
	phWait   // reading; an open transaction lies below the captured high watermark
	phRun    // folding and committing
	phReInit // as above, for the read-back
	phReFetch
	phReHW
	phReWait
)

// Steps of the commit batch in flight.
const (
	stNone       = iota
	stClosed     // next: produce snapshots, progress (and outputs)
	stProduced   // every promise answered; next: read the token
	stTokenRead  // next: TxnOffsetCommit arrives
	stOffset     // offset accepted; next: EndTxn(commit)
	stRefused    // refused by generation; next: EndTxn(abort)
	stAwaitToken // waits for a different token under the same member id
)

// Requests that may be delayed past their sender's interest.
const (
	msgNone = iota
	msgInit
	msgProduce
	msgOffset
	msgCommit
	msgAbort
)

// Msg is a request on its way to the broker.
type Msg struct {
	Kind, Ep, Tok, Proc uint8 // Proc is the process + 1
	B                   Batch
}

// Proc is one process: its group client, its ownership, its memory and its writer.
type Proc struct {
	Up, Member uint8 // Member: the coordinator has a live member for it
	Tok        uint8 // token the group client would hand out now
	Assigned   uint8 // the group client has announced the partition and not yet taken it back
	SameID     uint8 // the live member id, and the join number, are those the ownership was granted under
	Own, Phase uint8
	Ep, Step   uint8
	BTok       uint8 // token read for this transaction
	Mem        [2]Val
	Hold       [2]uint8 // oldest offset folded and not in a batch, + 1
	InHold     [2]uint8 // oldest offset folded into the batch in flight, + 1
	Pos, C     uint8    // next offset to fold; committed offset as read
	CID        uint8    // id found with it
	Last       uint8    // id of the last transaction known committed
	Known      uint8    // its offset
	Pending    uint8    // outputs of folded records that are not yet acknowledged, or not yet in a batch
	Ended      uint8    // EndTxn(commit) of this attempt was called
	Decided    uint8    // what the coordinator decided on this attempt: 1 commit, 2 abort (checked, never read by the protocol)
	Buf        uint8    // one polled record waiting in the worker's queue, offset + 1 (only with Config.Queue)
	Asked      uint8    // the group has answered since the last InitProducerID (only with Probe)
	Fresh      uint8    // 1: neither offset nor progress was found; 2: the start is resolved and not yet committed (only with Latest)
	Looked     uint8    // committed offset and progress disagreed, and were read again (only with Accident)
	BufOld     uint8    // it was tagged by an earlier ownership
	Leaving    uint8    // 1: asked to end; 2: it has left the group (only with Leave)
	Slow       uint8    // the batch ran out of time, and its outcome is read back first (only with Slow)
	Drop       uint8    // keys of before the rebuild that the log still has (only with Rebuild)
	Same       uint8    // a look that counts for the batch has found the input's partitions as they were (only with Grow)
	Late       uint8    // the process was started after the input had got a partition (only with Grow)
	B, Parked  Batch    // Parked: only with R9 off
}

// State is everything; it is comparable and has no padding.
type State struct {
	Txn, TxnSnap, TxnOff uint8 // TxnSnap, TxnOff: open, or marker outstanding, on that partition
	LastOp               uint8
	TxnProc              uint8
	TxnB                 Batch // pending on the snapshot partition
	TxnOffVal, TxnOffID  uint8 // pending on the offsets partition
	Snap                 [2]Val
	Prog, ProgID         uint8 // last committed progress record
	Off, OffID           uint8 // committed offset and its metadata
	Latest               uint8 // last transaction decided committed
	Peak                 [2]uint8
	Out                  uint8 // two bits a record: how often a reader sees its output, saturating
	Owner, Moving        uint8 // assignee + 1; a graceful move is under way
	P                    [2]Proc
	Ghost                Msg
	Left                 uint8 // faults left
	Began                uint8 // where the first fold of all began, + 1 (checked, never read by the protocol; only with Latest)
	Hit                  uint8 // the one accident has happened
	Grown                uint8 // the input has got a partition
	Emptied              uint8 // retention has emptied the input
	Headless             uint8 // the head of the snapshot log was deleted
	OldInc               uint8 // the newest progress record is of before the rebuild
	Halt                 uint8 // an owner has stopped with a named cause, and waits for an operator
	Bad                  uint8 // first violated check
}

const (
	newID      = 15 // given to a new attempt, renamed by canon
	operatorID = 14 // of an offset that no transaction has set, renamed likewise
)

// ids lists every place an id is kept, in a fixed order.
func (s *State) ids() [18]*uint8 {
	a, b := &s.P[0], &s.P[1]
	return [18]*uint8{&s.OffID, &s.ProgID, &s.Latest, &s.TxnB.ID, &s.TxnB.Base, &s.TxnOffID, &s.Ghost.B.ID, &s.Ghost.B.Base,
		&a.Last, &a.CID, &a.B.ID, &a.B.Base, &b.Last, &b.CID, &b.B.ID, &b.B.Base, &a.Parked.ID, &b.Parked.ID}
}

func (s *State) rename() {
	var to [16]uint8
	next := uint8(1)
	for _, p := range s.ids() {
		if *p == 0 {
			continue
		}
		if to[*p] == 0 {
			to[*p] = next
			next++
		}
		*p = to[*p]
	}
	if next >= operatorID {
		panic("model: too many transaction ids alive")
	}
}

func (s *State) swapped() State {
	t := *s
	t.P[0], t.P[1] = s.P[1], s.P[0]
	for _, p := range []*uint8{&t.Owner, &t.TxnProc, &t.Ghost.Proc} {
		if *p != 0 {
			*p = 3 - *p
		}
	}
	return t
}

const stateSize = unsafe.Sizeof(State{})

func (s *State) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(s)), stateSize) }

// canon returns the representative of s under renaming of ids and exchange of the two processes.
func (s State) canon() State {
	t := s.swapped()
	s.rename()
	t.rename()
	if string(t.bytes()) < string(s.bytes()) {
		return t
	}
	return s
}
