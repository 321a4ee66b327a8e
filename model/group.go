package main

// gone ends the ownership: the client is closed, memory and queue are dropped. Group membership is another matter.
func (s *State) gone(i int) {
	p := &s.P[i]
	buf := p.Buf
	*p = Proc{Up: p.Up, Member: p.Member, Tok: p.Tok, Assigned: p.Assigned, Late: p.Late, Leaving: p.Leaving}
	if buf != 0 {
		p.Buf, p.BufOld = buf, 1
	}
}

// drop is gone for whichever state the ownership is in; a revoke callback that waited for it returns.
func (s *State) drop(i int) {
	draining := s.P[i].Own == ownDraining
	s.gone(i)
	if draining {
		s.revokeReturns(i)
	}
}

// grant starts a new ownership under the live member id.
func (c *Config) grant(s *State, i int) {
	p := &s.P[i]
	p.Assigned, p.Own, p.SameID, p.Phase = 1, ownHeld, 1, phInit
	if !c.R12Init {
		p.Phase = c.firstRead()
	}
}

func (c *Config) firstRead() uint8 {
	if c.R12Order {
		return phFetch
	}
	return phHW
}

// groupSteps are the group client's: it runs on its own, whatever the application does.
func (c *Config) groupSteps(s *State, i int, out emit) {
	p := s.P[i]
	if p.Member != 0 && (p.Up == 0 || c.Expel && s.Left > 0) {
		t := *s
		if p.Up != 0 {
			t.Left--
		}
		t.expel(i)
		out("expelled by coordinator", i, p.Up != 0, t)
	}
	if p.Up == 0 {
		if p.Member == 0 && (s.Grown == 0 || !c.R31Start) {
			t := *s
			t.P[i].Up, t.P[i].Late = 1, s.Grown
			out("restarts", i, false, t)
		}
		return
	}
	if c.Crash && s.Left > 0 {
		t := *s
		t.Left--
		t.P[i] = Proc{Member: p.Member}
		out("crashes", i, true, t)
		if m := c.pendingMsg(s, i); m.Kind != msgNone && s.Ghost.Kind == msgNone && c.Net {
			t.Ghost = m
			out("crashes, "+msgName[m.Kind]+" still on its way", i, true, t)
		}
	}
	c.watchSteps(s, i, out)
	c.leaveSteps(s, i, out)
	switch {
	case p.Leaving == 2: // its client is closed: nothing is told any more
	case p.Tok == tokNone && p.Member == 0 && p.Leaving == 0:
		t := *s
		t.bumpGeneration()
		t.P[i].Member, t.P[i].Tok = 1, tokValid
		out("joins", i, false, t)
	case p.Tok == tokOldGen && p.Member != 0:
		t := *s
		t.P[i].Tok = tokValid
		out("learns the new generation", i, false, t)
	case p.Tok == tokUnknown:
		c.expelledSteps(s, i, out)
	case p.Tok == tokValid:
		c.callbackSteps(s, i, out)
	}
}

// leaveSteps: the process is asked to end. It drains what it owns, leaves the group, and ends when no ownership is
// left.
func (c *Config) leaveSteps(s *State, i int, out emit) {
	p := s.P[i]
	t := *s
	switch {
	case c.Leave && p.Leaving == 0 && p.Member != 0 && s.Left > 0:
		t.Left--
		t.P[i].Leaving = 1
		if !c.R24 && p.Own == ownHeld {
			out("is asked to end; the client has forgotten the partition", i, true, t)
		}
		switch {
		case p.Own == ownHeld && p.Phase == phRun && !(c.R2ID && p.SameID == 0):
			t.P[i].Own, t.P[i].Buf, t.P[i].BufOld = ownDraining, 0, 0
		case p.Own != ownDraining:
			t.gone(i)
		}
		out("is asked to end", i, true, t)
	case p.Leaving == 1 && (p.Own == ownNone || !c.R24 && p.Own == ownHeld):
		t.expel(i)
		t.P[i].Leaving = 2
		out("leaves the group", i, false, t)
	case p.Leaving == 2 && p.Own == ownNone:
		t.P[i] = Proc{}
		out("ends", i, false, t)
	}
}

// expelledSteps: the client hears that its membership ended and tells the application, or is back before it could.
func (c *Config) expelledSteps(s *State, i int, out emit) {
	t := *s
	t.gone(i)
	t.P[i].Tok, t.P[i].Assigned = tokNone, 0
	out("lost callback", i, false, t)
	p := &s.P[i]
	if !c.Silent || s.Left == 0 || p.Leaving != 0 || p.Member != 0 || p.Own == ownDraining {
		return
	}
	t = *s
	t.Left--
	t.bumpGeneration()
	t.P[i].Member, t.P[i].Tok = 1, tokValid
	if !c.KeepID {
		t.P[i].SameID = 0
		out("rejoins silently under a new member id", i, true, t)
		return
	}
	if c.R2Join {
		t.P[i].SameID = 0
	}
	out("rejoins silently under the same member id", i, true, t)
}

// callbackSteps are the assigned and the revoked callback of a member in good standing.
func (c *Config) callbackSteps(s *State, i int, out emit) {
	p := s.P[i]
	mine := int(s.Owner) == i+1 && s.Moving == 0
	if mine && p.Leaving == 0 && p.Own == ownNone && (p.Assigned == 0 || c.Regrant) {
		t := *s
		c.grant(&t, i)
		what := "assigned callback: granted"
		if p.Assigned != 0 {
			what = "still assigned: granted anew"
		}
		out(what, i, false, t)
	}
	if !mine && p.Assigned != 0 && s.Owner != 0 && p.Own != ownDraining {
		t := *s
		switch {
		case !c.R13 && p.Own != ownNone: // torn down "later": the callback returns at once
			t.revokeReturns(i)
		case p.Phase == phRun && !(c.R2ID && p.SameID == 0):
			t.P[i].Own, t.P[i].Buf, t.P[i].BufOld = ownDraining, 0, 0
		default:
			t.gone(i)
			t.revokeReturns(i)
		}
		out("revoke callback", i, false, t)
	}
}

func (s *State) bufGone(i int) { s.P[i].Buf, s.P[i].BufOld = 0, 0 }
