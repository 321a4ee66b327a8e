package main

// retakes reports whether a restore that waits takes over again. That is the first takeover's function once more
// (fence/takeover.go:first): whoever leaves that one out has no other.
func (c *Config) retakes() bool { return c.Retake && c.R12Init }

// localSteps are the engine's and the writer's steps that are no transactional request.
func (c *Config) localSteps(s *State, i int, out emit) {
	p := &s.P[i]
	step := func(what string, f func(t *State, p *Proc)) {
		t := *s
		f(&t, &t.P[i])
		out(what, i, false, t)
	}
	switch p.Phase {
	case phFetch, phReFetch:
		if c.R12Stab && s.TxnOff != 0 {
			if c.retakes() && s.Txn == txnOngoing {
				step("takes over again", func(t *State, p *Proc) { p.Phase-- })
			}
			break
		}
		step("reads the committed offset", func(t *State, p *Proc) {
			p.C, p.CID = t.Off, t.OffID
			switch {
			case p.Phase == phReFetch:
				p.Phase = phReHW
			case c.R12Order:
				p.Phase = phHW
			default:
				c.compare(t, i, t.Prog)
			}
		})
	case phWait, phReWait:
		if c.retakes() && s.Txn == txnOngoing {
			step("takes over again", func(t *State, p *Proc) { p.Phase = p.Phase - phWait + phInit })
		}
	case phHW, phReHW:
		step("captures the high watermark", func(t *State, p *Proc) {
			switch wait := t.TxnSnap != 0 && c.R12HW; {
			case wait:
				p.Phase++
			case p.Phase == phHW:
				c.view(t, i)
			default:
				c.resolve(t, i)
			}
		})
	case phRun:
		c.lookSteps(s, i, step)
		c.slowSteps(s, i, out)
		c.writerSteps(s, i, step)
	}
	if p.Phase == phRun || p.Phase >= phReInit && !c.R5Fold {
		c.foldSteps(s, i, step)
	}
	if p.Pending != 0 && !c.Outputs {
		step("outputs acknowledged", func(t *State, p *Proc) {
			for r := range c.Input {
				if p.Pending>>r&1 != 0 {
					t.output(r)
				}
			}
			p.Pending = 0
		})
	}
	if p.Own == ownDraining {
		what := "revoke budget spent: gone"
		if p.Phase == phRun && p.Step == stNone && p.Hold == [2]uint8{} {
			what = "drained: gone"
		}
		step(what, func(t *State, p *Proc) { t.drop(i) })
	}
}

func (c *Config) foldSteps(s *State, i int, step func(string, func(*State, *Proc))) {
	p := &s.P[i]
	if p.Own != ownHeld || p.Fresh != 0 {
		return
	}
	if !c.Queue {
		if r := c.next(s, p.Pos); r >= 0 {
			step("folds", func(t *State, p *Proc) { c.foldOne(t, i, r) })
		}
		return
	}
	if p.Buf == 0 && int(p.Pos) < len(c.Input) {
		step("polls", func(t *State, p *Proc) { p.Buf = p.Pos + 1 })
	}
	if p.Buf != 0 {
		step("takes a queued record", func(t *State, p *Proc) {
			r, old := int(p.Buf)-1, p.BufOld != 0
			t.bufGone(i)
			if old && c.R14Tag || c.R14Rise && r < int(p.Pos) {
				return
			}
			c.foldOne(t, i, r)
		})
	}
}

func (c *Config) foldOne(s *State, i, r int) {
	p := &s.P[i]
	k := c.Input[r].Key
	if c.Latest && s.Began == 0 {
		s.Began = uint8(r) + 1
	}
	p.Pos = uint8(r) + 1
	if c.Input[r].Marker || p.Mem[k].applied() >= r {
		return
	}
	if c.R30Again {
		p.Drop &^= 1 << k
	}
	if c.Pipe {
		p.Pending |= 1 << r
		return
	}
	p.Mem[k] = c.fold(p.Mem[k], r)
	p.Pending |= 1 << r
	if p.Hold[k] == 0 {
		p.Hold[k] = uint8(r) + 1
	}
	if p.Mem[k] != c.want(s, k, r+1) {
		s.fail(badState)
	}
	if p.Last == s.Latest && uint8(p.Mem[k].applied()+1) < s.Peak[k] {
		s.fail(badCameBack)
	}
}

// writerSteps close a batch and take it to EndTxn; the requests themselves are in netSteps.
func (c *Config) writerSteps(s *State, i int, step func(string, func(*State, *Proc))) {
	p := &s.P[i]
	switch p.Step {
	case stNone:
		if p.Fresh != 0 {
			c.startSteps(p, step)
			return
		}
		c.closeSteps(s, i, step)
	case stClosed:
		if !c.R25Both && p.B.Keys == 0 && p.B.Outs == 0 && p.Fresh == 0 && p.Ep != epNone {
			step("leaves the progress record out", func(t *State, p *Proc) { p.Step = stProduced })
		}
		if p.Ep == epNone {
			step("initialises late", func(t *State, p *Proc) { p.Phase = phReInit })
		}
		if !c.R1 && p.Ep != epNone && s.Ghost.Kind == msgNone { // the offset goes out, and the transaction ends, without the promise
			step("reads the token before the promise", func(t *State, p *Proc) {
				t.Ghost = c.pendingMsg(t, i)
				p.Step = stProduced
			})
		}
	case stProduced:
		step("reads the token", func(t *State, p *Proc) {
			if c.R2ID && c.R2Order && p.SameID == 0 || p.Tok == tokNone {
				t.drop(i)
				return
			}
			p.Step, p.BTok = stTokenRead, p.Tok
		})
	case stAwaitToken:
		switch {
		case c.R2ID && p.SameID == 0:
			step("another member id: gone", func(t *State, p *Proc) { t.drop(i) })
		case p.Tok == tokValid:
			step("a new token: the same effects go again", func(t *State, p *Proc) { c.knownAborted(t, i) })
		}
		if c.R7Bound {
			step("no new token in time: gone", func(t *State, p *Proc) { t.drop(i) })
		}
	}
}

// startSteps resolve the start of a new flow to the end that the input has now, which is any, and commit it (R23).
func (c *Config) startSteps(p *Proc, step func(string, func(*State, *Proc))) {
	if p.Own != ownHeld {
		return
	}
	for at := range uint8(len(c.Input) + 1) {
		step("resolves the start", func(t *State, p *Proc) {
			p.Pos, p.Known, p.Fresh = at, at, 0
			if c.R23 {
				p.Fresh = 2
				p.B, p.Step = Batch{Off: at, ID: newID, Base: p.Last}, stClosed
				return
			}
			if t.Began != 0 && t.Began != at+1 && int(at) < len(c.Input) {
				t.fail(badTwoStarts)
			}
		})
	}
}

func (c *Config) closeSteps(s *State, i int, step func(string, func(*State, *Proc))) {
	p := &s.P[i]
	if p.Parked.Outs != 0 {
		step("sends the parked batch", func(t *State, p *Proc) {
			p.B, p.Parked, p.Step = p.Parked, Batch{}, stClosed
			p.B.Outs, p.B.ID, p.B.Base = 0, newID, p.Last
		})
	}
	var dirty uint8
	for k := range p.Hold {
		if p.Hold[k] != 0 {
			dirty |= 1 << k
		}
	}
	c.partSteps(s, i, dirty, step)
	c.dropSteps(s, i, dirty, step)
	for set := uint8(0); set < 4; set++ {
		if set&^dirty != 0 || set != dirty && (c.Outputs || p.Own == ownDraining) {
			continue
		}
		off := p.Pos
		for k := range p.Hold {
			if h := p.oldest(k); h != 0 && set>>k&1 == 0 && c.R17Min {
				off = min(off, h-1)
			}
		}
		if set == 0 && off <= p.Known || c.R18 && !c.Outputs && p.Pending&c.recordsOf(set) != 0 {
			continue
		}
		step("closes a batch", func(t *State, p *Proc) { c.closeOne(p, set, off) })
	}
	if c.Outputs || !c.R20 || p.Own == ownDraining {
		return
	}
	for k := range p.Mem { // R20: the second write of a delete
		if p.Mem[k].kind() != kindDeleted || p.Hold[k] != 0 || c.R20Known && int(p.Known) <= p.Mem[k].applied() {
			continue
		}
		step("closes a batch with a tombstone", func(t *State, p *Proc) {
			off := p.Pos
			for k := range p.Hold {
				if h := p.oldest(k); h != 0 {
					off = min(off, h-1)
				}
			}
			p.B, p.Step = Batch{Keys: 1 << k, Off: off, ID: newID, Base: p.Last}, stClosed
			p.B.Vals[k] = mkVal(p.Mem[k].applied(), 0, kindTombstone)
		})
	}
}

// closeOne makes a batch of the states of set, and of all outputs under FencedOutputs.
func (c *Config) closeOne(p *Proc, set, off uint8) {
	b := Batch{Keys: set, Off: off, ID: newID, Base: p.Last}
	for k := range p.Mem {
		if set>>k&1 == 0 {
			continue
		}
		b.Vals[k] = p.Mem[k]
		if p.Mem[k].kind() == kindDeleted && (c.Outputs || !c.R20) {
			b.Vals[k] = mkVal(p.Mem[k].applied(), 0, kindTombstone)
		}
		p.InHold[k] = p.oldest(k)
		if c.R17Two {
			p.Hold[k] = 0
		}
	}
	if c.Outputs {
		b.Outs, p.Pending = p.Pending, 0
	}
	p.B, p.Step = b, stClosed
}

// oldest is key k's least hold. Outside the one batch in flight there is an in-flight hold only for a parked batch.
func (p *Proc) oldest(k int) uint8 {
	if p.InHold[k] != 0 && (p.Hold[k] == 0 || p.InHold[k] < p.Hold[k]) {
		return p.InHold[k]
	}
	return p.Hold[k]
}

func (c *Config) recordsOf(keys uint8) (m uint8) {
	for r, in := range c.Input {
		if !in.Marker && keys>>in.Key&1 != 0 {
			m |= 1 << r
		}
	}
	return
}
