package main

// Answers to requests.
const (
	ansOK     = iota
	ansWait   // CONCURRENT_TRANSACTIONS or UNSTABLE_OFFSET_COMMIT: the client asks again
	ansFenced // producer epoch
	ansOldGen
	ansUnknownMember
)

// bumpEnd is TV2's epoch bump at each End: the last epoch is remembered for a retried EndTxn.
func (s *State) bumpEnd() {
	for _, e := range []*uint8{&s.P[0].Ep, &s.P[1].Ep, &s.Ghost.Ep} {
		switch *e {
		case epCur:
			*e = epPrev
		case epPrev:
			*e = epStale
		}
	}
}

// bumpFence is the bump of an initialisation or of a transaction timeout: every earlier epoch is refused from now on.
func (s *State) bumpFence() {
	for _, e := range []*uint8{&s.P[0].Ep, &s.P[1].Ep, &s.Ghost.Ep} {
		if *e != epNone {
			*e = epStale
		}
	}
}

// bumpGeneration makes every token handed out so far one of an old generation.
func (s *State) bumpGeneration() {
	for _, t := range []*uint8{&s.P[0].Tok, &s.P[1].Tok, &s.P[0].BTok, &s.P[1].BTok, &s.Ghost.Tok} {
		if *t == tokValid {
			*t = tokOldGen
		}
	}
}

// apply is one request arriving at the broker. It serves live requests and late ones alike.
func (c *Config) apply(s *State, m Msg) int {
	switch m.Kind {
	case msgInit:
		switch s.Txn {
		case txnOngoing: // aborted with a fencing bump; the client asks again until the markers are written
			s.decideAbort()
			s.bumpFence()
			return ansWait
		case txnEmpty:
			s.bumpFence()
			return ansOK
		}
		return ansWait
	case msgProduce: // TV2 adds the partition implicitly; a produce between End and the last marker is held
		if m.Ep != epCur {
			return ansFenced
		}
		if s.Txn > txnOngoing {
			return ansWait
		}
		if s.TxnSnap == 0 { // else a duplicate, dropped by its sequence
			s.Txn, s.LastOp, s.TxnSnap, s.TxnB, s.TxnProc = txnOngoing, 0, 1, m.B, m.Proc
		}
		return ansOK
	case msgOffset:
		return c.applyOffset(s, m)
	case msgCommit, msgAbort:
		op := uint8(m.Kind-msgCommit) + 1
		switch {
		case m.Ep == epCur && s.Txn == txnOngoing:
			if m.Kind == msgCommit {
				c.decideCommit(s)
			} else {
				s.decideAbort()
			}
			if !c.TV1 {
				s.bumpEnd()
			}
			return ansOK
		case (m.Ep == epPrev || m.Ep == epCur && c.TV1) && s.LastOp == op: // a retry of the End that was the last
			if s.Txn == txnEmpty {
				return ansOK
			}
			return ansWait
		}
		return ansFenced // PRODUCER_FENCED, INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE
	}
	panic("model: unknown request")
}

// applyOffset is TxnOffsetCommit: the group is asked about the token once, now, and never again.
func (c *Config) applyOffset(s *State, m Msg) int {
	if m.Ep != epCur {
		return ansFenced
	}
	if s.Txn > txnOngoing {
		return ansWait
	}
	if c.Fence {
		if m.Tok == tokUnknown && !(c.KeepID && s.P[m.Proc-1].Member != 0) {
			return ansUnknownMember
		}
		if m.Tok == tokUnknown { // of a membership that ended; its id has an epoch again
			return ansOldGen
		}
		if m.Tok == tokOldGen && !(c.Lenient && s.Owner == m.Proc) {
			return ansOldGen
		}
	}
	s.Txn, s.LastOp, s.TxnOff, s.TxnOffVal, s.TxnOffID = txnOngoing, 0, 1, m.B.Off, m.B.ID
	if s.TxnProc == 0 {
		s.TxnProc = m.Proc
	}
	return ansOK
}

func (s *State) decideAbort() {
	s.Txn, s.LastOp = txnPrepAbort, 2
	s.tellAttempt(2)
}

func (s *State) tellAttempt(d uint8) {
	for i := range s.P {
		if p := &s.P[i]; p.B.ID != 0 && (s.TxnSnap != 0 && p.B.ID == s.TxnB.ID || s.TxnOff != 0 && p.B.ID == s.TxnOffID) {
			p.Decided = d
		}
	}
}

// decideCommit is the point of no return; what is checked here is checked for every future reader.
func (c *Config) decideCommit(s *State) {
	s.Txn, s.LastOp = txnPrepCommit, 1
	s.tellAttempt(1)
	id := s.TxnOffID
	if s.TxnSnap != 0 {
		id = s.TxnB.ID
		c.checkWriter(s)
	}
	s.Latest = id
	snap, off := s.decided()
	c.checkMoved(s, off)
	if s.TxnOff != 0 && off < s.Off {
		s.fail(badOffsetFell)
	}
	c.checkSnapshots(s, snap, off)
	if s.TxnSnap == 0 {
		return
	}
	for k := range s.Peak {
		if s.TxnB.Keys>>k&1 == 0 {
			continue
		}
		if n := uint8(s.TxnB.Vals[k].applied() + 1); n < s.Peak[k] {
			s.fail(badRegress)
		} else {
			s.Peak[k] = n
		}
	}
	for r := range c.Input {
		if c.Outputs && s.TxnB.Outs>>r&1 != 0 {
			s.output(r)
			if s.outs(r) > 1 {
				s.fail(badOutputTwice)
			}
		}
		if c.Outputs && r < int(off) && !c.Input[r].Marker && r >= c.begins(s, int(off)) && s.outs(r) == 0 {
			s.fail(badOutputLost)
		}
	}
}

// decided is what a restore that waits for the open markers will find.
func (s *State) decided() (snap [2]Val, off uint8) {
	snap, off = s.Snap, s.Off
	if s.Txn != txnPrepCommit {
		return
	}
	if s.TxnSnap != 0 {
		for k := range snap {
			if s.TxnB.Keys>>k&1 != 0 {
				if snap[k] = s.TxnB.Vals[k]; snap[k].kind() == kindTombstone {
					snap[k] = 0
				}
			}
		}
	}
	if s.TxnOff != 0 {
		off = s.TxnOffVal
	}
	return
}

func (s *State) outs(r int) int { return int(s.Out>>(2*r)) & 3 }
func (s *State) output(r int) {
	if s.outs(r) < 2 {
		s.Out += 1 << (2 * r)
	}
}

// markSnapshot writes the marker on the snapshot partition; whoever was reading towards it gets past it.
func (c *Config) markSnapshot(s *State) {
	if s.Txn == txnPrepCommit {
		s.Snap, _ = s.decided()
		s.Prog, s.ProgID, s.OldInc = s.TxnB.Off, s.TxnB.ID, 0
	}
	s.TxnSnap = 0
	for i := range s.P {
		switch s.P[i].Phase {
		case phWait:
			c.view(s, i)
		case phReWait:
			c.resolve(s, i)
		}
	}
	s.complete()
}

func (s *State) markOffset() {
	if s.Txn == txnPrepCommit {
		s.Off, s.OffID = s.TxnOffVal, s.TxnOffID
	}
	s.TxnOff = 0
	s.complete()
}

func (s *State) complete() {
	if s.TxnSnap == 0 {
		s.TxnB = Batch{}
	}
	if s.TxnOff == 0 {
		s.TxnOffVal, s.TxnOffID = 0, 0
	}
	if s.TxnSnap == 0 && s.TxnOff == 0 {
		s.Txn, s.TxnProc = txnEmpty, 0
	}
}

// brokerSteps are the broker's own: markers, timeout, late requests, assignment.
func (c *Config) brokerSteps(s *State, out emit) {
	if s.Txn > txnOngoing {
		if s.TxnSnap != 0 {
			t := *s
			c.markSnapshot(&t)
			out("snapshot marker", -1, false, t)
		}
		if s.TxnOff != 0 {
			t := *s
			t.markOffset()
			out("offsets marker", -1, false, t)
		}
	}
	abandoned := s.P[0].Ep != epCur && s.P[1].Ep != epCur // nobody is left who could end it
	if s.Txn == txnOngoing && (abandoned && c.Sweep || !abandoned && c.Timeout && s.Left > 0) {
		t := *s
		if !abandoned {
			t.Left--
		}
		t.decideAbort()
		t.bumpFence()
		out("transaction timeout", -1, !abandoned, t)
	}
	if g := s.Ghost; g.Kind != msgNone {
		t := *s
		t.Ghost = Msg{}
		out("late request lost", int(g.Proc)-1, false, t)
		if a := c.apply(&t, g); a != ansWait || g.Kind == msgInit && s.Txn == txnOngoing {
			out("late "+msgName[g.Kind]+" arrives", int(g.Proc)-1, false, t)
		}
	}
	c.faultSteps(s, out)
	if s.Owner == 0 {
		for i := range s.P {
			if s.P[i].Member != 0 {
				t := *s
				t.Owner = uint8(i) + 1
				out("assigned by coordinator", i, false, t)
			}
		}
	}
	if c.Bump && s.Left > 0 && s.Owner != 0 && (s.P[0].Tok == tokValid || s.P[1].Tok == tokValid) {
		t := *s
		t.Left--
		t.bumpGeneration()
		out("rebalance, nothing moves", -1, true, t)
	}
	if o := int(s.Owner) - 1; c.Move && s.Left > 0 && o >= 0 && s.Moving == 0 && s.P[1-o].Member != 0 {
		t := *s
		t.Left--
		t.Moving = 1
		t.bumpGeneration()
		if t.P[o].Assigned == 0 { // not yet announced: nothing to revoke
			t.Owner, t.Moving = uint8(2-o), 0
		}
		out("rebalance, partition to move", o, true, t)
	}
}

var msgName = [...]string{"", "InitProducerID", "Produce", "TxnOffsetCommit", "EndTxn(commit)", "EndTxn(abort)"}

// expel removes a member: its session ran out, or it was too slow in a rebalance.
func (s *State) expel(i int) {
	p := &s.P[i]
	p.Member = 0
	if p.Tok != tokNone {
		p.Tok = tokUnknown
	}
	if p.BTok != tokNone {
		p.BTok = tokUnknown
	}
	if s.Ghost.Tok != tokNone && int(s.Ghost.Proc) == i+1 {
		s.Ghost.Tok = tokUnknown
	}
	if int(s.Owner) == i+1 {
		s.Owner, s.Moving = 0, 0
	}
	s.bumpGeneration()
}

// revokeReturns is the group client's revoke callback coming back: only now may the partition go to another member.
func (s *State) revokeReturns(i int) {
	s.P[i].Assigned = 0
	if int(s.Owner) == i+1 && s.Moving != 0 {
		s.Owner, s.Moving = 0, 0
		if s.P[1-i].Member != 0 {
			s.Owner = uint8(2 - i)
		}
		s.bumpGeneration()
	}
}
