package main

// What the input is: where there is nothing to fold, where it ends, and what becomes of it.

// next is the record that follows the position, -1: there is none. What is nothing to fold is read like any other
// (R25), or goes with the record behind it.
func (c *Config) next(s *State, pos uint8) int {
	for r := int(pos); r < len(c.Input); r++ {
		switch in := c.Input[r]; {
		case in.Moved && s.Grown == 0:
			return -1
		case !in.Marker || c.R25:
			return r
		}
	}
	return -1
}

// rest is where the committed offset comes to rest, unless the input gets another partition.
func (c *Config) rest() (end int) {
	for r, in := range c.Input {
		switch {
		case in.Moved:
			return end
		case !in.Marker || c.R25:
			end = r + 1
		}
	}
	return end
}

// inputSteps are what becomes of the input, and of the head of the snapshot log.
func (c *Config) inputSteps(s *State, out emit) {
	if c.Grow && s.Grown == 0 {
		t := *s
		t.Left--
		t.Grown = 1
		out("the input gets a partition", -1, true, t)
	}
	// Retention takes its time, and an idle owner commits within seconds.
	if c.Empties && s.Emptied == 0 && c.good(s) {
		s.accident("retention empties the input", out, func(t *State) { t.Emptied = 1 })
	}
	if !c.Head || s.Headless != 0 || s.Txn != txnEmpty {
		return
	}
	for k := range s.Snap {
		if s.Snap[k] != 0 {
			s.accident("the head of the snapshot log is deleted", out, func(t *State) { t.Snap[k], t.Headless = 0, 1 })
		}
	}
}

// waitsForLook reports whether a batch may not be sent yet (R31).
func (c *Config) waitsForLook(p *Proc) bool { return c.Grow && c.R31 && p.Same == 0 }

// lookSteps are the look for a batch at the input's partitions that finds them as they were. A producer writes a key
// to another partition only once that is there: a look that begins after the fetch sees it.
func (c *Config) lookSteps(s *State, i int, step func(string, func(*State, *Proc))) {
	p := &s.P[i]
	if !c.waitsForLook(p) || s.Grown != p.Late {
		return
	}
	if p.Step == stClosed || p.Step == stNone && !c.R31After {
		step("looks, and the input is as it was", func(t *State, p *Proc) { p.Same = 1 })
	}
}

// watchSteps are the look, for a batch or of a member that has none, that finds a partition more: the process ends.
func (c *Config) watchSteps(s *State, i int, out emit) {
	if !c.Grow || s.Grown == s.P[i].Late {
		return
	}
	t := *s
	t.P[i] = Proc{Member: t.P[i].Member}
	out("looks, and the input has a partition more: stops", i, false, t)
}

// checkMoved runs when a transaction is decided committed. What is folded of a moved key begins with no state.
func (c *Config) checkMoved(s *State, off uint8) {
	for r, in := range c.Input {
		written := s.TxnSnap != 0 && s.TxnB.Keys>>in.Key&1 != 0 && s.TxnB.Vals[in.Key].applied() >= r
		if in.Moved && (int(off) > r || written) {
			s.fail(badMoved)
		}
	}
}
