package main

// Violations.
const (
	badNone        = iota
	badOffsetAhead // I1
	badState       // I2: a value is no fold of the accepted records up to its applied offset
	badRegress     // I2, R9: applied fell in the committed snapshots
	badOffsetFell  // the committed offset fell
	badLostUpdate  // I3: committed on top of a transaction that the writer's memory does not contain
	badStaleWrite  // I3: committed by a process that is not the owner, after the owner's restore
	badOutputTwice // I4, FencedOutputs
	badOutputLost  // I4, both
	badBelief      // believed committed what was not, or aborted what was committed
	badCameBack    // R20: a key deleted in the committed snapshots has an older value again
	badStop        // committed offset beyond the progress record: the protocol would stop for a lost log
	badDisturb     // a process that gives up aborts another's open transaction
	badTwoStarts   // R23: the flow has begun at one offset and begins at another
	badEmptied     // R25: stops because records are gone, all of which were folded
	badMoved       // R31: committed what was folded without the records before it
	badStuck       // no quiescent good state can be reached without another fault
	badCount
)

var badName = [...]string{"none", "I1 offset ahead of snapshots", "I2 wrong state", "I2 applied regressed",
	"I1 committed offset fell", "I3 lost update", "I3 stale write visible", "I4 output twice", "I4 output lost",
	"belief wrong", "R20 deleted key came back", "stops: c > p", "aborts another's transaction", "R23 two starts",
	"R25 stops for what was folded", "R31 keys moved", "stuck: no recovery without a fault"}

func (s *State) fail(b uint8) {
	if s.Bad == badNone {
		s.Bad = b
	}
}

// checkWriter runs when a transaction with snapshots is decided committed.
func (c *Config) checkWriter(s *State) {
	if s.TxnB.Base != s.Latest {
		s.fail(badLostUpdate)
	}
	w := int(s.TxnProc) - 1
	if q := &s.P[1-w]; q.Own == ownHeld && q.Phase >= phRun && q.SameID != 0 && int(s.Owner) == 2-w {
		s.fail(badStaleWrite)
	}
}

// checkSnapshots checks what a restore would find.
func (c *Config) checkSnapshots(s *State, snap [2]Val, off uint8) {
	for k, v := range snap {
		v = v.state()
		if v != 0 && v != c.want(s, k, v.applied()+1) {
			s.fail(badState)
		}
		if want := c.want(s, k, int(off)); v.applied() < want.applied() && !(v == 0 && want.kind() == kindDeleted) {
			s.fail(badOffsetAhead)
		}
	}
}

// checkState is checked in every state: in FencedState an output that no replay will repeat must be out, or on its way.
func (c *Config) checkState(s *State) {
	if c.Outputs {
		return
	}
	snap, off := s.decided()
	if s.Hit != 0 { // what an operator has skipped is not the protocol's loss
		off = min(off, s.Prog)
	}
	for r, in := range c.Input {
		if r < c.begins(s, int(off)) || in.Marker {
			continue
		}
		if (int(off) > r || snap[in.Key].state().applied() >= r) && s.outs(r) == 0 && (s.P[0].Pending|s.P[1].Pending)>>r&1 == 0 {
			s.fail(badOutputLost)
		}
	}
}

// good is quiescence with everything done: the whole input committed by the owner, nothing open.
func (c *Config) good(s *State) bool {
	if s.Halt != 0 { // named, and nothing was written: what comes next is the operator's
		return true
	}
	if s.Grown != 0 { // every process has stopped
		return s.P[0].Up == 0 && s.P[1].Up == 0 && s.Txn == txnEmpty
	}
	o := int(s.Owner) - 1
	if s.P[0].Leaving != 0 || s.P[1].Leaving != 0 {
		return false
	}
	if o < 0 || s.Txn != txnEmpty || int(s.Off) != c.rest() || s.Ghost.Kind != msgNone {
		return false
	}
	p := &s.P[o]
	for k, v := range s.Snap {
		if want := c.want(s, k, c.rest()); v != want && !(v == 0 && want.kind() == kindDeleted) {
			return false
		}
	}
	for r := range c.rest() {
		if n := s.outs(r); r >= c.begins(s, c.rest()) && !c.Input[r].Marker && (n == 0 || c.Outputs && n != 1) {
			return false
		}
	}
	return p.Own == ownHeld && p.Phase == phRun && p.Step == stNone && p.Pos == s.Off && p.Pending == 0 && p.Hold == [2]uint8{}
}

func initial(c *Config) State {
	s := State{Left: c.Faults}
	if c.Rebuild {
		old := mkVal(0, 7, kindLive) | before
		s.OldInc, s.Snap = 1, [2]Val{old, old}
	}
	for i := range s.P {
		s.P[i] = Proc{Up: 1, Member: 1, Tok: tokValid}
	}
	return s.canon()
}
