package main

// pendingMsg is the request that process i sends next.
func (c *Config) pendingMsg(s *State, i int) Msg {
	p := &s.P[i]
	m := Msg{Ep: p.Ep, Proc: uint8(i) + 1}
	switch {
	case p.Own == ownNone:
	case p.Phase == phInit || p.Phase == phReInit:
		m.Kind, m.Ep = msgInit, epNone
	case p.Phase != phRun:
	case p.Step == stClosed && p.Ep != epNone && c.waitsForLook(p):
	case p.Step == stClosed && p.Ep != epNone:
		m.Kind, m.B = msgProduce, p.B
	case p.Step == stTokenRead:
		m.Kind, m.Tok, m.B = msgOffset, p.BTok, Batch{Off: p.B.Off, ID: p.B.ID}
	case p.Step == stOffset:
		m.Kind = msgCommit
	case p.Step == stRefused:
		m.Kind = msgAbort
	}
	return m
}

// netSteps deliver the next request and its answer in one step (nothing the process does in between could be told
// apart), or lose the answer, or leave the request in the network while the client sees an error.
func (c *Config) netSteps(s *State, i int, out emit) {
	m := c.pendingMsg(s, i)
	if m.Kind == msgNone {
		return
	}
	name := msgName[m.Kind]
	t := *s
	if m.Kind == msgInit && c.Probe && t.P[i].Asked == 0 {
		if p := &t.P[i]; p.Tok == tokUnknown || p.SameID == 0 {
			t.drop(i)
			out("asks the group before InitProducerID: gone", i, false, t)
		} else {
			p.Asked = 1
			out("asks the group before InitProducerID: still a member", i, false, t)
		}
		return
	}
	t.P[i].Asked = 0 // one answer of the group is good for one request
	ans := c.apply(&t, m)
	switch {
	case ans != ansWait:
		lost := t
		c.answered(&t, i, m.Kind, ans)
		c.slowInDoubt(&t, i, m.Kind, out)
		out(name+[...]string{" ok", "", " refused: producer epoch", " refused: old generation", " refused: unknown member"}[ans], i, false, t)
		if c.Net && s.Left > 0 && ans == ansOK {
			lost.Left--
			c.transportError(&lost, i, m.Kind, name+" ok, answer lost", out)
		}
	case m.Kind == msgInit && s.Txn == txnOngoing:
		if s.P[i].Own == ownDraining && int(s.TxnProc) != i+1 {
			t.fail(badDisturb)
		}
		out("InitProducerID aborts the open transaction", i, false, t)
	}
	if c.Net && s.Left > 0 && s.Ghost.Kind == msgNone {
		t := *s
		t.Left--
		t.Ghost, t.P[i].Asked = m, 0
		c.transportError(&t, i, m.Kind, name+" delayed, client sees an error", out)
	}
	if p := &s.P[i]; c.Refuse && s.Left > 0 && m.Kind == msgProduce && p.B.Keys != 0 { // R10: one record is refused
		for k := range p.Mem {
			if p.B.Keys>>k&1 != 0 && p.InHold[k] != 0 {
				t := *s
				t.Left--
				c.takeOut(&t, i, k)
				out("one write refused and taken out", i, true, t)
			}
		}
	}
}

func (c *Config) takeOut(s *State, i, k int) {
	p := &s.P[i]
	p.B.Keys &^= 1 << k
	p.B.Vals[k] = 0
	p.Hold[k], p.InHold[k] = p.InHold[k], 0
	if c.R10Off {
		p.B.Off = min(p.B.Off, p.Hold[k]-1)
	}
}

func (c *Config) answered(s *State, i int, kind uint8, ans int) {
	p := &s.P[i]
	switch {
	case kind == msgInit:
		p.Ep = epCur
		switch {
		case p.Phase == phReInit && p.Ended == 0 && !c.R4, p.Phase == phReInit && p.Ended != 0 && !c.R5Abort:
			c.knownAborted(s, i)
		case p.Phase == phReInit:
			p.Phase = phReFetch
		case !c.R12Init:
			p.Phase = phRun
		default:
			p.Phase = c.firstRead()
		}
	case kind == msgProduce && ans == ansOK:
		p.Step = stProduced
		if c.R2ID && !c.R2Order && p.SameID == 0 {
			s.drop(i)
		}
	case kind == msgOffset && ans == ansOK:
		p.Step, p.BTok = stOffset, tokNone
	case kind == msgCommit && ans == ansOK:
		p.Ep = epCur
		c.knownCommitted(s, i)
	case kind == msgAbort && ans == ansOK:
		p.Ep = epCur
		p.Step = stAwaitToken
	case ans == ansOldGen && c.TV1Init && p.Own == ownHeld:
		c.fenced(s, i, kind) // a new client whose takeover aborts the transaction, instead of EndTxn(abort)
	case ans == ansOldGen && c.R7Wait && p.Own == ownHeld, ans == ansUnknownMember && !c.R7Gone && p.Own == ownHeld:
		p.Step, p.BTok = stRefused, tokNone // p.BTok was refused: only another token helps
	case ans == ansOldGen || ans == ansUnknownMember:
		s.drop(i)
	default: // producer fence; from EndTxn(commit) it leaves the outcome unknown
		c.fenced(s, i, kind)
	}
}

// transportError is what a client does after no answer to a request.
func (c *Config) transportError(s *State, i int, kind uint8, what string, out emit) {
	switch kind {
	case msgInit:
		out(what, i, true, *s) // asked again
		return
	case msgCommit, msgAbort:
		out(what+", client retries", i, true, *s)
	}
	c.fenced(s, i, kind)
	c.slowInDoubt(s, i, kind, out)
	out(what, i, true, *s)
}

// fenced follows a producer fence, a transport error or an error from EndTxn.
func (c *Config) fenced(s *State, i int, kind uint8) {
	p := &s.P[i]
	if !c.R6 { // the client's own abort re-initialises with the old epoch
		switch {
		case s.Txn == txnOngoing:
			if int(s.TxnProc) != i+1 {
				s.fail(badDisturb)
			}
			s.decideAbort()
			s.bumpFence()
		case s.Txn == txnEmpty && (p.Ep == epCur || p.Ep == epPrev):
			s.bumpFence()
		}
	}
	if kind == msgCommit {
		p.Ended = 1
		if !c.R5Commit {
			c.knownCommitted(s, i)
			return
		}
	}
	if p.Own == ownDraining && c.R4Drain {
		s.drop(i)
		return
	}
	p.Phase, p.Ep, p.Step, p.BTok = phReInit, epNone, stClosed, tokNone
}

func (c *Config) knownCommitted(s *State, i int) {
	p := &s.P[i]
	if p.Decided != 1 && !c.NoBelief {
		s.fail(badBelief)
	}
	p.Last, p.Known = p.B.ID, p.B.Off
	for k := range p.Mem {
		if p.B.Keys>>k&1 == 0 {
			continue
		}
		p.InHold[k] = 0
		if !c.R17Two {
			p.Hold[k] = 0
		}
		if p.B.Vals[k].kind() == kindTombstone && p.Mem[k].kind() == kindDeleted && p.Hold[k] == 0 {
			p.Mem[k] = 0 // the tombstone is out: nothing is kept of the key
		}
	}
	p.B, p.Step, p.Ended, p.Decided, p.Fresh, p.Phase = Batch{}, stNone, 0, 0, 0, phRun
	p.Slow, p.Same = 0, 0
}

// knownAborted: the same effects may go again, as another attempt.
func (c *Config) knownAborted(s *State, i int) {
	p := &s.P[i]
	if p.Decided == 1 && !c.NoBelief {
		s.fail(badBelief)
	}
	if p.Slow != 0 {
		p.Phase = phRun
		c.smaller(s, i)
		return
	}
	p.Step, p.Ended, p.Decided, p.Phase = stClosed, 0, 0, phRun
	p.B.ID, p.B.Base = newID, p.Last
	if !c.R9 && !c.Outputs && p.Parked.ID == 0 {
		p.Parked, p.B, p.Step = p.B, Batch{}, stNone
		p.Parked.ID, p.Parked.Base = 0, 0
		p.Parked.Outs = 1 // marks it used
	}
}
