package main

// emit receives one successor: what happened, to which process (-1: none), whether it is a fault (faults are bounded,
// and none is needed for recovery).
type emit func(what string, proc int, fault bool, t State)

// Next enumerates every successor of s.
func (c *Config) Next(s State, out emit) {
	if s.Halt != 0 {
		return
	}
	c.brokerSteps(&s, out)
	for i := range s.P {
		c.groupSteps(&s, i, out)
		if s.P[i].Up != 0 && s.P[i].Own != ownNone {
			c.netSteps(&s, i, out)
			c.localSteps(&s, i, out)
		}
	}
}
