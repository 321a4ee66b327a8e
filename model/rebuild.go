package main

// A rebuild begins at the input's first record under the next incarnation, with its first commit. States of before it
// do not count, and each gets a tombstone for whoever else reads them, unless its key has come again (R30).

// state is a snapshot as a restore takes it.
func (v Val) state() Val {
	if v&before != 0 {
		return 0
	}
	return v
}

// load takes the snapshots that a restore has read.
func (c *Config) load(s *State, i int) {
	p := &s.P[i]
	for k, v := range s.Snap {
		p.Mem[k] = v.state()
		if v&before == 0 {
			continue
		}
		if c.R30Next || s.OldInc != 0 {
			p.Drop |= 1 << k
		}
		if !c.R30Restore {
			p.Mem[k] = v &^ before
		}
	}
}

// dropSteps close a batch with tombstones of keys that the rebuild has dropped, beside all that is to be written: all
// of them, but for keys that are in the batch themselves. A drain writes none.
func (c *Config) dropSteps(s *State, i int, dirty uint8, step func(string, func(*State, *Proc))) {
	p := &s.P[i]
	if p.Own != ownHeld || c.R18 && !c.Outputs && p.Pending&c.recordsOf(dirty) != 0 {
		return
	}
	keys := p.Drop &^ dirty
	if keys == 0 {
		return
	}
	step("closes a batch with tombstones of before the rebuild", func(t *State, p *Proc) {
		c.closeOne(p, dirty, p.Pos)
		p.Drop &^= keys
		p.B.Keys |= keys
		for k := range p.Mem {
			if keys>>k&1 != 0 {
				p.B.Vals[k] = mkVal(-1, 0, kindTombstone)
			}
		}
	})
}
