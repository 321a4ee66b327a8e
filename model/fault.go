package main

// faultSteps are what happens to the brokers, and to the whole application at once.
func (c *Config) faultSteps(s *State, out emit) {
	if s.Left == 0 {
		return
	}
	if c.Failover && (s.P[0].Ep == epPrev || s.P[1].Ep == epPrev || s.Ghost.Ep == epPrev) {
		t := *s
		t.Left--
		t.forgetEpoch()
		out("transaction coordinator moves", -1, true, t)
	}
	if c.Accident && s.Hit == 0 {
		c.accidentSteps(s, out)
	}
	c.inputSteps(s, out)
}

// forgetEpoch makes a retried EndTxn of the epoch before the current one a stranger's: it is answered with a fence
// although it was applied.
func (s *State) forgetEpoch() {
	for _, e := range []*uint8{&s.P[0].Ep, &s.P[1].Ep, &s.Ghost.Ep} {
		if *e == epPrev {
			*e = epStale
		}
	}
}

// accident stops everything, and f is what happens then.
func (s *State) accident(what string, out emit, f func(t *State)) {
	t := *s
	t.Left--
	t.Hit = 1
	for i := range t.P {
		t.expel(i)
		t.P[i] = Proc{Up: 1}
	}
	f(&t)
	out("everything stops; "+what, -1, true, t)
}

// accidentSteps are what an operator, a retention time or a lost log does while nothing runs.
func (c *Config) accidentSteps(s *State, out emit) {
	accident := func(what string, f func(t *State)) { s.accident(what, out, f) }
	if s.Txn != txnEmpty { // the next takeover ends it: an accident after that comes to the same
		return
	}
	if s.OffID != 0 {
		accident("the committed offset expires", func(t *State) { t.Off, t.OffID = 0, 0 })
	}
	if s.ProgID != 0 {
		accident("the snapshot topic is made anew", func(t *State) { t.Snap, t.Prog, t.ProgID = [2]Val{}, 0, 0 })
	}
	for off := range uint8(len(c.Input) + 1) {
		switch {
		case s.OffID == 0:
		case off < s.Off:
			accident("the committed offset is set back", func(t *State) { t.Off, t.OffID = off, operatorID })
		case off > s.Off:
			accident("the committed offset is set forward", func(t *State) { t.Off, t.OffID = off, operatorID })
		}
	}
}
