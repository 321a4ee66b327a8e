package main

import "math/bits"

// What ran out of time comes again smaller (R27).

// slowSteps: the transaction is older than it may be, and the next request is not its end. So it is known not to be
// committed. The client is closed; a request of it may still arrive.
func (c *Config) slowSteps(s *State, i int, out emit) {
	p := &s.P[i]
	if !c.Slow || s.Left == 0 || p.Own != ownHeld || p.Ep == epNone || !c.divisible(p) {
		return
	}
	switch m := c.pendingMsg(s, i); m.Kind {
	case msgProduce, msgOffset:
		if s.Ghost.Kind == msgNone {
			t := *s
			t.Left--
			t.Ghost, t.P[i].Ep = m, epNone
			c.smaller(&t, i)
			out(msgName[m.Kind]+" delayed, the transaction runs out of time", i, true, t)
		}
	default: // the end was asked for, or may have been
		return
	}
	t := *s
	t.Left--
	t.P[i].Ep = epNone
	c.smaller(&t, i)
	out("the transaction runs out of time", i, true, t)
}

// divisible reports whether the batch in flight has more than one step, or more than one state.
func (c *Config) divisible(p *Proc) bool {
	if c.Outputs {
		return bits.OnesCount8(p.B.Outs) > 1
	}
	return bits.OnesCount8(p.B.Keys) > 1
}

// slowInDoubt follows an error of EndTxn: the time may have run out as well, and the outcome is unknown.
func (c *Config) slowInDoubt(s *State, i int, kind uint8, out emit) {
	p := &s.P[i]
	if !c.Slow || kind != msgCommit || p.Own != ownHeld || p.Phase != phReInit || !c.divisible(p) {
		return
	}
	t := *s
	if t.P[i].Slow = 1; !c.R27Known {
		t.P[i].Phase = phRun
		c.smaller(&t, i)
	}
	out("EndTxn(commit) in doubt, and its time ran out", i, true, t)
}

// smaller has what is in the batch in flight back. Where it is whole and has states, these are those after its last
// step, and memory is ahead of what a part of it may commit: the ownership ends, and is granted anew.
func (c *Config) smaller(s *State, i int) {
	p := &s.P[i]
	if p.Decided == 1 && !c.NoBelief {
		s.fail(badBelief)
	}
	if c.Outputs && !c.Pipe && c.R27Whole {
		s.drop(i)
		return
	}
	for k := range p.InHold {
		if p.InHold[k] != 0 {
			p.Hold[k], p.InHold[k] = p.InHold[k], 0
		}
	}
	p.Pending |= p.B.Outs
	p.B, p.Step, p.BTok, p.Ended, p.Decided, p.Slow, p.Same = Batch{}, stNone, tokNone, 0, 0, 0, 0
}

// partSteps close a batch with the first outputs of those that wait, and leave the others for the next one. With only
// states to write every subset of them is a batch anyway.
func (c *Config) partSteps(s *State, i int, dirty uint8, step func(string, func(*State, *Proc))) {
	p := &s.P[i]
	if !c.Slow || !c.Outputs || !c.Pipe && c.R27Whole || bits.OnesCount8(p.Pending) < 2 || p.Own == ownDraining {
		return
	}
	first := p.Pending & -p.Pending
	off := p.Pos
	if c.R27Off {
		off = uint8(bits.TrailingZeros8(first)) + 1
	}
	step("closes a part of a batch", func(t *State, p *Proc) {
		rest := p.Pending &^ first
		c.closeOne(p, dirty, off)
		p.B.Outs, p.Pending = first, rest
	})
}
