package main

// view completes a restore: everything below the captured high watermark has been read.
func (c *Config) view(s *State, i int) {
	p := &s.P[i]
	p.Last = s.ProgID
	c.load(s, i)
	if !c.R12Order {
		p.Phase = phFetch
		return
	}
	c.compare(s, i, s.Prog)
}

// compare is the table of committed offset c and progress p.
func (c *Config) compare(s *State, i int, prog uint8) {
	p := &s.P[i]
	start := p.C
	switch {
	case c.R26 && s.Headless != 0:
		s.Halt = 1
		return
	case c.TV1Init && p.C < prog: // a torn commit: the progress record went with the snapshots, so it is the start
		start = prog
	case c.Table && (p.C < prog || p.C == prog && p.CID != p.Last): // someone commits beside us: look again
		c.lookAgain(s, i)
		return
	case c.Table && p.C > prog && c.Accident:
		s.Halt = 1
		return
	case c.Table && p.C > prog:
		s.fail(badStop)
	}
	if c.Latest && p.CID == 0 && p.Last == 0 {
		p.Fresh = 1
	}
	p.Pos, p.Known, p.Phase, p.C, p.CID, p.Looked = start, p.C, phRun, 0, 0, 0
	if s.Emptied != 0 && int(start) < len(c.Input) {
		s.fail(badEmptied)
	}
	if s.OldInc != 0 {
		p.Fresh = 2
		p.B, p.Step = Batch{ID: newID, Base: p.Last}, stClosed
	}
	for k := range p.Mem {
		if want := c.want(s, k, p.Mem[k].applied()+1); p.Mem[k] != 0 && p.Mem[k] != want {
			s.fail(badState)
		}
		if want := c.want(s, k, int(p.Pos)); p.Mem[k].applied() < want.applied() && !(p.Mem[k] == 0 && want.kind() == kindDeleted) {
			s.fail(badOffsetAhead)
		}
	}
	if !c.R12Init {
		p.Phase = phInit
	}
}

// lookAgain follows a committed offset that is missing, or older than the progress record: another owner may have
// committed between the two reads. What is the same at the second look is no race.
func (c *Config) lookAgain(s *State, i int) {
	p := &s.P[i]
	c.note("restore: c < p")
	rightful := int(s.Owner) == i+1 && p.SameID != 0
	switch {
	case c.Strict && rightful:
		s.fail(badStop)
	case c.Accident && rightful && p.Looked != 0:
		s.Halt = 1
		return
	case c.Accident && p.Looked != 0: // nobody's owner: its process ends, and the group's next one finds the same
		s.gone(i)
		return
	case c.Accident:
		p.Looked = 1
	}
	p.Mem, p.Last, p.CID, p.C, p.Phase = [2]Val{}, 0, 0, 0, c.firstRead()
}

// resolve ends a read-back (R4).
func (c *Config) resolve(s *State, i int) {
	p := &s.P[i]
	off, prog := p.CID, s.ProgID
	if !c.R4Both {
		prog = off
	}
	if !c.R4Prog {
		off = prog
	}
	p.C, p.CID = 0, 0
	switch {
	case off == p.Last && prog == p.Last:
		c.note("read-back: aborted")
		c.knownAborted(s, i)
	case off == p.B.ID && prog == p.B.ID:
		c.note("read-back: committed")
		c.knownCommitted(s, i)
	default: // another owner's: drop memory, restore
		c.note("read-back: another owner's")
		draining := p.Own == ownDraining
		same, ep := p.SameID, p.Ep
		s.gone(i)
		if draining {
			s.revokeReturns(i)
			return
		}
		p.Own, p.SameID, p.Ep, p.Phase = ownHeld, same, ep, c.firstRead()
		if !c.R4Bind && p.Tok != tokNone {
			p.SameID = 1
		}
	}
}
