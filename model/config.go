package main

import "reflect"

// Rec is one input record.
type Rec struct {
	Key    int
	Del    bool
	Marker bool // nothing to fold: a marker, an aborted record, what compaction has removed
	Moved  bool // of a key whose records before it are in another partition: written after the input has got one more
}

// Rules are the protocol's rules; each can be switched off. The zero value is no rule at all: see AllRules.
type Rules struct {
	R1       bool // every promise answered before TxnOffsetCommit
	Fence    bool // the offset is bound to a group token and the broker checks it
	R2Order  bool // ... and that is checked after the token was read; off: before
	R2ID     bool // another member id than the grant's means gone
	R4       bool // read back after every InitProducerID that follows a fence or a transport error before EndTxn
	R4Both   bool // the read-back compares the offset's id and the progress record's id; off: the offset's alone
	R4Prog   bool // off: the read-back compares the progress record's id alone
	R4Drain  bool // never initialise while draining
	R4Bind   bool // an ownership renewed after a read-back keeps the member id of the grant
	R5Abort  bool // off: an EndTxn error is taken for an abort
	R5Commit bool // off: an EndTxn error is taken for a commit
	R5Fold   bool // no fold while an outcome is unknown
	R6       bool // close only after a fence or an unknown outcome; off: the client re-initialises with its old epoch
	R7Wait   bool // refused by an old generation: the same effects go again with a new token; off: gone at once
	R7Bound  bool // ... and waits for it at most the rebalance timeout
	R7Gone   bool // unknown member: gone at once; off: treated as an old generation
	R9       bool // a retried batch goes before any newer one
	R10Off   bool // taking a write out of a batch lowers the batch's offset to that key's hold (R17's definition)
	R12Init  bool // takeover before the offset is read; off: after the restore, without read-back
	R12Order bool // offset before high watermark
	R12HW    bool // restore to the high watermark; off: to the last stable offset
	R12Stab  bool // stable offset fetch
	Table    bool // committed offset and progress record are compared before the first fold
	R13      bool // the revoke callback tears the ownership down before it returns
	R14Tag   bool // batches carry the ownership number
	R14Rise  bool // the first record after restore is >= start, offsets strictly rise; off: no such check
	R17Two   bool // a key has an in-flight hold and a new hold; off: one hold, cleared when the commit is known
	R17Min   bool // the offset respects holds of keys not in the transaction; off: next offset to fold
	R18      bool // outputs acknowledged before a covering snapshot enters a transaction
	R20      bool // a delete in two writes
	R20Known bool // ... the tombstone waits for the known committed offset
	Sweep    bool // (broker) an abandoned transaction is aborted after its timeout
	Retake   bool // a restore that waits for an open transaction takes over again (R12)
	Probe    bool // InitProducerID is sent only after the group has answered under the grant's member id (R4)
	Regrant  bool // gone, but assigned under the live member id: a new ownership is granted (R2)
	R2Join   bool // a join number tells a membership from the next one under the same member id (R2)
	R23      bool // the start of a new flow is committed before the first fold

	R24        bool // an ownership ends before its member leaves; off: one that the client has forgotten stays held
	R25        bool // the position follows what was read; off: what was folded
	R25Both    bool // ... and is committed with a progress record; off: the offset alone
	R26        bool // a restore from a snapshot log whose head was deleted stops
	R27Known   bool // a batch that ran out of time is made smaller once it is known not to be committed; off: in doubt
	R27Off     bool // a part of a whole batch commits the offset behind its own last output; off: behind all of it
	R27Whole   bool // a whole batch with states is made smaller by a restore; off: its states go with a part of it
	R30Restore bool // a restore leaves out the states of before a rebuild
	R30Again   bool // a key that has come again since the rebuild gets no tombstone
	R30Next    bool // an owner goes on with the tombstones that the one before it has not written
	R31        bool // a batch waits for a look at the input's partitions
	R31After   bool // ... that begins after its records were fetched; off: any since the last commit
	R31Start   bool // a start compares the input with the layout that the states are of; off: it takes the present one
}

// AllRules is the protocol as designed.
func AllRules() (r Rules) {
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		v.Field(i).SetBool(true)
	}
	return r
}

// Config is one bounded instance.
type Config struct {
	Name     string
	Input    []Rec
	Outputs  bool  // FencedOutputs; else FencedState
	Queue    bool  // model the worker's queue (one record)
	Lenient  bool  // KIP-1251: an old generation is accepted while the partition is still the member's
	TV1      bool  // transaction.version 1: no epoch bump at End
	TV1Init  bool  // with TV1: after a group refusal a new client takes over; c < p after a restore is accepted
	KeepID   bool  // KIP-848: an expelled member rejoins under the member id that it had
	Strict   bool  // report a rightful owner that finds c < p, instead of looking again
	NoBelief bool  // do not check what an owner believes, only what comes of it
	Pipe     bool  // with Outputs: no state, and a batch may be a part of what waits
	Rebuild  bool  // the snapshots are of before a rebuild, which the first owner begins
	Latest   bool  // a new flow begins at the end that its input has at that moment, which is any
	Faults   uint8 // total
	// Fault classes that may occur; each occurrence costs one of Faults.
	Crash    bool // a process ends and starts again
	Expel    bool // the group takes a member out that is alive
	Silent   bool // ... and it is back before its application is told
	Net      bool // an answer, or a request, is lost or late
	Timeout  bool // a transaction is aborted by its timeout
	Bump     bool // a rebalance that moves nothing
	Move     bool // a rebalance that moves the partition
	Refuse   bool // the broker refuses one record for what it is
	Failover bool // the transaction coordinator moves, and forgets which epoch came before the current one
	Accident bool // everything stops, and the committed offset or the snapshot topic is not what it was at the next start
	Head     bool // everything stops, and the head of the snapshot log is gone at the next start
	Empties  bool // everything stops once all is committed, and retention has emptied the input at the next start
	Leave    bool // a process is asked to end
	Slow     bool // a transaction runs out of time
	Grow     bool // the input gets another partition
	Rules

	Seen map[string]int // if not nil: how often each kind of step was taken
}

func (c *Config) note(what string) {
	if c.Seen != nil {
		c.Seen[what]++
	}
}

// everyFault lets everything happen but accidents, which have configurations of their own.
func everyFault(c Config) Config {
	c.Crash, c.Expel, c.Silent, c.Net, c.Timeout, c.Bump, c.Move, c.Failover = true, true, true, true, true, true, true, true
	c.Refuse = !c.Outputs
	c.Rules = AllRules()
	return c
}

func withAccident(c Config) Config {
	c.Accident = true
	return c
}

// fold is the user's function: it collects the records since the last delete.
func (c *Config) fold(v Val, r int) Val {
	if c.Input[r].Marker || c.Pipe {
		return v
	}
	if c.Input[r].Del {
		return mkVal(r, 0, kindDeleted)
	}
	return mkVal(r, v.mask()|1<<r, kindLive)
}

// want is the only correct value of key k when every record from the start of the flow to below end has been folded.
func (c *Config) want(s *State, k, end int) Val {
	var v Val
	for r := c.begins(s, end); r < end; r++ {
		if c.Input[r].Key == k {
			v = c.fold(v, r)
		}
	}
	return v
}

// begins is the start of the flow; as long as none has begun it is where somebody would.
func (c *Config) begins(s *State, end int) int {
	switch {
	case !c.Latest:
		return 0
	case s.Began == 0:
		return end
	}
	return int(s.Began) - 1
}
