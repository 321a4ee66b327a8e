package fence

import "time"

// useful is when the group last answered what lets its member go on (R32). An answer that is an error does not
// count: a coordinator that says for ever that it is not available has not answered. The client's hooks tell
// that an answer came, and not what it was; what the client does next tells that:
//
//   - it asks for the coordinator: the answer before sent it away, or there was none;
//   - it calls back that the partitions are lost: the answer before was a refusal;
//   - it sends SyncGroup: the JoinGroup before was granted;
//   - it calls back that partitions are assigned: the SyncGroup before was granted;
//   - it sends its next heartbeat, or joins for a rebalance: the heartbeat before was a good one.
//
// So an answer counts from its coming, and is taken back if what follows shows that it was an error. Once that
// has happened, an answer counts from the next request on.
//
// The owner of a useful holds the lock.
type useful struct {
	heard    time.Time // the last useful answer, as far as is known; zero: nobody has looked yet
	proven   time.Time // the last one that the client has shown to be useful by what it did
	came     time.Time // when the heartbeat was answered of which that is not known yet; zero: none
	cameSent time.Time // and when that one was sent
	doubted  bool      // the last answer was no useful one
	failed   bool      // a membership has ended since the last answer that was proven
	seat     bool      // partitions were assigned, and the membership has not ended since
	waiting  time.Time // when the first JoinGroup was sent since the last useful answer; zero: none
}

// look begins the count.
func (u *useful) look(now time.Time) {
	if u.heard.IsZero() {
		u.heard, u.proven = now, now
	}
}

// answered notes the answer to a heartbeat that was sent then, and reports whether nothing speaks against it.
// Without a seat it does not count: under KIP-848 a member joins by heartbeats, and the client sends the next
// one behind some refusals without a word.
func (u *useful) answered(now, sent time.Time) bool {
	if !u.seat {
		return !u.doubted
	}
	u.came, u.cameSent = now, sent
	if u.doubted {
		return false
	}
	u.heard, u.waiting = now, time.Time{}
	return true
}

// next notes that the client goes on behind the last answer as it does behind a good one. It returns when the
// heartbeat was sent that had it; zero: none.
func (u *useful) next() time.Time {
	if u.came.IsZero() {
		return time.Time{}
	}
	sent := u.cameSent
	u.proof(u.came)
	return sent
}

// proof notes a good answer.
func (u *useful) proof(at time.Time) {
	u.proven, u.doubted, u.failed = at, false, false
	if at.After(u.heard) {
		u.heard = at
	}
	u.came, u.cameSent, u.waiting = time.Time{}, time.Time{}, time.Time{}
}

// ended notes that the membership has ended.
func (u *useful) ended() {
	u.failed, u.seat = u.failed || u.seat, false
	u.withdraw()
}

// withdraw takes back what was not proven.
func (u *useful) withdraw() {
	u.heard, u.doubted = u.proven, true
	u.came, u.cameSent = time.Time{}, time.Time{}
}

// joins notes that a JoinGroup leaves.
func (u *useful) joins(now time.Time) {
	if u.waiting.IsZero() {
		u.waiting = now
	}
}

// joined notes that a JoinGroup was granted: its wait for the other members, up to limit, was no silence. What
// it was granted for has yet to come.
func (u *useful) joined(now time.Time, limit time.Duration) {
	if u.waiting.IsZero() || u.heard.IsZero() {
		return
	}
	waited := min(now.Sub(u.waiting), limit)
	u.heard, u.proven, u.waiting = u.heard.Add(waited), u.proven.Add(waited), time.Time{}
}

// seated notes that partitions were assigned. It counts until that shows to have led nowhere: a member that is
// let in and refused for ever is let in again and again.
func (u *useful) seated(now time.Time) {
	u.seat, u.waiting = true, time.Time{}
	if !u.failed {
		u.heard = now
	}
}

// seated notes that the client has a seat in the group, as far as it knows.
func (s *session) seated() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.useful.seated(s.now())
}

// silence returns how long the group has not answered anything useful. A JoinGroup that waits for the other
// members is no silence up to the rebalance timeout, the first one of a member included. What the
// group may take is left out of the count, and not only put off:
//
//  1. A JoinGroup waits for a member that is slow to give up its partitions.
//  2. The rebalance timeout passes, and the group begins to send its answers.
//  3. A look at that moment would count all of the wait, and find a group that has long been silent.
//
// Only the first JoinGroup since the last useful answer counts, and each that is granted. A client that joins
// again and again, at brokers that take its requests and say nothing, would else never be found.
func (s *session) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, u := s.now(), &s.useful
	u.look(now)
	silent := now.Sub(u.heard)
	if !u.waiting.IsZero() {
		silent -= min(now.Sub(u.waiting), s.rebalanceTimeout)
	}
	return max(silent, 0)
}
