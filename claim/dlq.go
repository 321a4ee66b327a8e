package claim

// DeadLetters returns the claims about the dead letters of a component, ComponentFlow or ComponentPipe,
// on a cluster whose finalized feature transaction.version is transactionVersion (0 if it has none or
// it is not known). The guarantee is a flow's; a pipe has none. It returns nil for a component or a
// guarantee that has no dead letters.
func DeadLetters(component, guarantee string, transactionVersion int) []Claim {
	c := Claim{
		Hop:       HopRejectDeadLetter,
		Component: component,
		Guarantee: guarantee,
		Crash:     crashes,
	}
	switch {
	case component == ComponentPipe && guarantee == "":
		c.Boundary = pipeBoundary
	case component == ComponentFlow && guarantee == FencedOutputs:
		c.Boundary = boundary
	case component == ComponentFlow && guarantee == FencedState:
		return []Claim{c.atLeastOnce()}
	case component == ComponentFlow && guarantee == Unfenced:
		c.Crash = unfencedCrashes
		return []Claim{c.atLeastOnce()}
	default:
		return nil
	}
	c.Statement = "exactly-once inside Kafka, for read_committed readers: the dead letter of a record becomes visible together with the offset " +
		"that is past it, or not at all; it has the record's bytes and its origin topic, partition and offset"
	c.Boundary += "; the dead-letter topic; for readers of it that set isolation.level=read_committed"
	if transactionVersion < 2 {
		c.Weaker = weakOutputs
	}
	return []Claim{c}
}

func (c Claim) atLeastOnce() Claim {
	c.Statement = "at-least-once: the dead letter of a record is acknowledged before the offset that is past it can commit; " +
		"a repeat has the same origin topic, partition and offset, so that a reader can tell it"
	c.Boundary = boundary + "; the dead-letter topic; a reader that removes repeats does so by the origin"
	return c
}
