package fence

// Membership is what a member is in its group.
type Membership struct {
	MemberID string // "": none
	// Generation is that of a classic group, or the member epoch under ServerSide; -1: not a member.
	Generation int32
	// Assigned: since the member is in the group, it was given its partitions, of which there may be none,
	// and assigned has returned for each of them.
	Assigned bool
}

// Membership returns what the member is at present, and what is closed when it, or an ownership, may be another.
// It waits for nothing.
func (g *Group) Membership() (m Membership, changed <-chan struct{}) {
	changed = g.session.watch() // before the look
	m.Generation = -1
	select {
	case <-g.ready:
	default:
		return m, changed
	}
	id, generation := g.session.metadata()
	if id == "" || generation < g.session.leastGeneration() {
		return m, changed
	}
	return Membership{MemberID: id, Generation: generation, Assigned: g.session.isSettled()}, changed
}

// settle notes that an assigned callback is through.
func (s *session) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = true
	s.wakeLocked()
}

func (s *session) isSettled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}
