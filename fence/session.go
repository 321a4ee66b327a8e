package fence

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// session is what all ownerships of one group member share: the live token, the join number, and
// when the group last answered.
type session struct {
	group            string
	instanceID       string
	sessionTimeout   time.Duration
	rebalanceTimeout time.Duration

	metadata func() (memberID string, generation int32)
	// ask sends one request about p that the group answers under memberID: Heartbeat in a classic
	// group, OffsetFetch under KIP-848, where a heartbeat of ours would be taken for the member's.
	ask func(ctx context.Context, memberID string, generation int32, p stream.Partition) error
	now func() time.Time

	mu       sync.Mutex
	joins    int64         // rises on every loss of the membership
	answered time.Time     // when the newest request was sent by whose answer the group knew the member
	joinSent time.Time     // when the JoinGroup was sent that has not been answered; zero: none
	useful   useful        // when the group last answered what lets the member go on
	settled  bool          // an assigned callback is through since the membership began
	asking   int           // heartbeats of our own that are under way, beside the client's
	changed  chan struct{} // closed and replaced when any of this or the token may have changed
	// expectServerSide: the caller wants KIP-848 and no other protocol.
	expectServerSide bool
	fellBack         chan struct{} // closed when the client speaks another protocol all the same
	// serverSide: the group was last answered under KIP-848. A client that was asked to use it falls
	// back to the classic protocol on brokers without it, so only what is on the wire tells.
	serverSide bool
}

func newSession() *session {
	return &session{now: time.Now, changed: make(chan struct{}), fellBack: make(chan struct{})}
}

func (s *session) joinNumber() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joins
}

// membershipEnded raises the join number: a client that keeps its member id over a rejoin cannot
// be told apart by the id alone.
func (s *session) membershipEnded() {
	s.mu.Lock()
	s.joins++
	s.settled = false
	s.answered, s.joinSent = time.Time{}, time.Time{}
	s.useful.ended()
	s.wakeLocked()
	s.mu.Unlock()
}

func (s *session) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// wake tells all waiters to look again.
func (s *session) wake() {
	s.mu.Lock()
	s.wakeLocked()
	s.mu.Unlock()
}

// watch returns a channel that is closed at the next change. Take it before looking.
func (s *session) watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// fresh reports whether the group has answered something that was *sent* within the session
// timeout (R16). The moment of the answer does not count:
//
//  1. a heartbeat is sent, its answer arrives in the kernel, the process is stopped
//  2. the session ends, another member owns the partition
//  3. the process goes on and reads the answer: an OK that is older than the session
//
// A JoinGroup that waits for its answer keeps the member alive up to the rebalance timeout.
func (s *session) fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freshLocked()
}

func (s *session) freshLocked() bool {
	now := s.now()
	if !s.answered.IsZero() && now.Sub(s.answered) < s.sessionTimeout {
		return true
	}
	return !s.joinSent.IsZero() && now.Sub(s.joinSent) < s.rebalanceTimeout
}

// confirmed notes that the group has said that it knows the member, in answer to what was sent then.
func (s *session) confirmed(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.After(s.answered) {
		s.answered = sent
	}
	s.wakeLocked()
}

var (
	joinKey      = int16(kmsg.JoinGroup)
	syncKey      = int16(kmsg.SyncGroup)
	heartbeatKey = int16(kmsg.Heartbeat)
	findKey      = int16(kmsg.FindCoordinator)
	// consumerHeartbeatKey is the one request of a member under KIP-848.
	consumerHeartbeatKey = int16(kmsg.ConsumerGroupHeartbeat)
)

// OnBrokerWrite implements kgo.HookBrokerWrite: it sees when a JoinGroup leaves, and by what leaves next what
// the answers before were (see useful).
func (s *session) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, timeToWrite time.Duration, err error) {
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	switch key {
	case findKey:
		s.useful.withdraw()
	case syncKey:
		s.useful.joined(now, s.rebalanceTimeout)
	case heartbeatKey, consumerHeartbeatKey, joinKey:
		if s.asking > 0 {
			break // it may be ours, and shows nothing of what the client makes of the answers before
		}
		if sent := s.useful.next(); sent.After(s.answered) && s.freshLocked() {
			s.answered = sent
		}
	}
	if key != joinKey {
		return
	}
	if s.expectServerSide {
		s.expectServerSide = false
		close(s.fellBack)
	}
	s.useful.joins(now)
	if s.freshLocked() { // else it is the rejoin of a member that the group may have expelled
		s.joinSent = now.Add(-timeToWrite)
	}
}

// OnBrokerE2E implements kgo.HookBrokerE2E: it sees when an answered request was sent. The clock is
// the monotonic one, so that a stopped process or a changed wall clock does not mislead it.
//
// The hook does not tell what the answer was, so that an answer prolongs what is fresh and never
// makes it so again; for that the group is asked (AwaitFresh). Otherwise:
//
//  1. a process wakes after its session and holds its outputs back
//  2. its client's heartbeat is answered UNKNOWN_MEMBER_ID: something that was sent just now
//  3. the outputs leave before the client has called back that the partitions are lost
//
// And once the client has lost its coordinator, what it is answered counts from the request after it on, by
// which the answer is known to have been a good one (see useful).
func (s *session) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key != joinKey && key != syncKey && key != heartbeatKey && key != consumerHeartbeatKey {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.freshLocked()
	if key == joinKey {
		s.joinSent = time.Time{}
	}
	if e2e.WriteErr == nil && e2e.ReadErr == nil {
		s.serverSide = key == consumerHeartbeatKey
		sent, trusted := s.now().Add(-e2e.DurationE2E()), true
		if (key == heartbeatKey || key == consumerHeartbeatKey) && s.asking == 0 {
			trusted = s.useful.answered(s.now(), sent)
		}
		if fresh && trusted && sent.After(s.answered) {
			s.answered = sent
		}
	}
	s.wakeLocked()
}

// leastGeneration is the least generation of a member: under KIP-848, 0 is that of one that joins.
func (s *session) leastGeneration() int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serverSide || s.expectServerSide {
		return 1
	}
	return 0
}

// askThrough returns ask over the member's client.
func (s *session) askThrough(cl *kgo.Client) func(context.Context, string, int32, stream.Partition) error {
	return func(ctx context.Context, memberID string, generation int32, p stream.Partition) error {
		s.mu.Lock()
		serverSide := s.serverSide
		s.mu.Unlock()
		if !serverSide {
			return s.askedOurselves(func() error { return wire.Heartbeat(ctx, cl, s.group, memberID, s.instanceID, generation) })
		}
		_, err := wire.FetchUnstableOffset(ctx, cl, s.group, wire.Member{ID: memberID, Generation: generation}, p, [16]byte{})
		return err
	}
}

// askedOurselves sends a heartbeat of our own, whose answer we are told.
func (s *session) askedOurselves(heartbeat func() error) error {
	s.mu.Lock()
	s.asking++
	s.mu.Unlock()
	err := heartbeat()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking--
	if err == nil || errors.Is(err, kerr.RebalanceInProgress) {
		s.useful.proof(s.now())
	}
	return err
}
