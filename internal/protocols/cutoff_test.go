package protocols

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// counter counts what was seen on the wire.
type counter struct {
	mu    sync.Mutex
	n     int
	grown chan struct{}
}

func newCounter() *counter { return &counter{grown: make(chan struct{})} }

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	close(c.grown)
	c.grown = make(chan struct{})
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// await waits until n were seen.
func (c *counter) await(f *trial.Field, what string, n int) {
	f.TB.Helper()
	limit := time.After(f.Patience)
	for {
		c.mu.Lock()
		seen, grown := c.n, c.grown
		c.mu.Unlock()
		if seen >= n {
			return
		}
		select {
		case <-grown:
		case <-limit:
			f.TB.Fatalf("%s: %d within %v, want %d", what, seen, f.Patience, n)
		}
	}
}

// refusals counts the answers to a member's requests of one kind that have the code at whatever level.
func refusals(m *trial.Member, key kmsg.Key, code *kerr.Error) *counter {
	c := newCounter()
	m.Tap.OnResponse(func(_ wiretap.Request, resp kmsg.Response) {
		if wiretap.FirstCode(resp) == code.Code {
			c.add()
		}
	}, key)
	return c
}

// outputs counts what a member produces outside of transactions.
func outputs(m *trial.Member) *counter {
	c := newCounter()
	m.Tap.OnRequest(func(r wiretap.Request) {
		if kmsg.Key(r.Key) != kmsg.Produce {
			return
		}
		if req, err := r.Decoded(); err == nil && req.(*kmsg.ProduceRequest).TransactionID == nil {
			c.add()
		}
	})
	return c
}

// cutOff is a member of KIP-848 that owned the only partition and is told nothing: the connection of each
// heartbeat is cut, all else goes through. Another member has the partition by now.
type cutOff struct {
	*trial.Field
	a, b       *trial.Member
	heartbeats *wiretap.Fault // of a
	takeover   *wiretap.Fault // of b: nil if it is not held
	mark       int
}

func newCutOff(t *testing.T, app trial.App, holdTakeover bool, watch ...func(a *trial.Member)) *cutOff {
	f := trial.New(t, kafkatest.Start(t), app, 1)
	c := &cutOff{Field: f, a: f.Member("a"), b: f.Member("b")}
	c.b.App.Off = nil
	for _, w := range watch {
		w(c.a)
	}
	c.a.Start()
	c.a.Owns()
	f.Send(20)
	f.CaughtUp()
	c.mark = f.Mark()
	c.heartbeats = c.a.Hold(wiretap.CutOnRequest, wiretap.Keys(kmsg.ConsumerGroupHeartbeat))
	f.Caught(c.heartbeats, 1)
	if holdTakeover {
		c.takeover = c.b.Hold(wiretap.HoldRequest, wiretap.Keys(kmsg.InitProducerID))
	}
	c.b.Start()
	if holdTakeover {
		f.Caught(c.takeover, 1) // the partition is b's
	} else {
		c.b.Owns()
	}
	if told := f.Since(c.mark, c.a.Is(moved)); len(told) > 0 {
		t.Fatalf("a was told: %+v", told)
	}
	return c
}

// finish lets a hear of it again, and has the run judged.
func (c *cutOff) finish() {
	c.TB.Helper()
	c.heartbeats.Lift()
	if c.takeover != nil {
		c.takeover.Lift()
	}
	c.Send(20)
	c.CaughtUp()
	c.Verify()
}

// A cut-off member that is told nothing while another owns its partition: the group refuses its commit,
// although nobody has taken its transactional id over yet, and with that it is gone.
// Public case E11.
func TestKafkaCutOffMemberIsRefusedByTheGroup(t *testing.T) {
	serves(t, serverSide)
	t.Parallel()
	c := newCutOff(t, short(trial.App{Kind: trial.Flow, Guarantee: holdfast.FencedOutputs, Protocol: serverSide}), true)
	refused := refusals(c.a, kmsg.TxnOffsetCommit, kerr.UnknownMemberID)
	c.Send(20)
	refused.await(c.Field, "a's refused commit", 1)
	e := c.Await("a's refusal", c.mark, 1, c.a.Is(trial.Kinds(holdfasttest.EventRefused)))[0]
	if e.Cause != "member" || !e.Final {
		t.Errorf("a was refused with %+v, want a final refusal of the member", e)
	}
	c.Await("a's end of the ownership", c.mark, 1, c.a.Is(trial.Kinds(holdfasttest.EventLost)))
	c.finish()
}

// Without a fence the offset is refused just so; what the member has written before that is there, which is
// why the guarantee is called Unfenced, and why the run is not judged.
func TestKafkaCutOffUnfencedMember(t *testing.T) {
	if !nightly() {
		t.Skip("set HOLDFAST_NIGHTLY=1")
	}
	serves(t, serverSide)
	t.Parallel()
	c := newCutOff(t, short(trial.App{Kind: trial.Flow, Guarantee: holdfast.Unfenced, Protocol: serverSide, Off: []rule.Name{rule.FreshSession}}), false)
	refused := refusals(c.a, kmsg.OffsetCommit, kerr.UnknownMemberID)
	c.Send(20)
	refused.await(c.Field, "a's refused commit", 1)
	c.Await("a's end of the ownership", c.mark, 1, c.a.Is(trial.Kinds(holdfasttest.EventLost)))
	c.heartbeats.Lift()
	c.CaughtUp()
}

// The same where the other member has taken the id over: the group is asked before the id is initialised
// again, and it does not know the member any more. So the rightful owner is left alone.
func TestKafkaCutOffMemberDoesNotInitialise(t *testing.T) {
	schedule := func(t *testing.T, off ...rule.Name) (inits int) {
		serves(t, serverSide)
		t.Parallel()
		c := newCutOff(t, short(trial.App{Kind: trial.Pipe, Protocol: serverSide, Off: off}), false)
		asked := refusals(c.a, kmsg.OffsetFetch, kerr.UnknownMemberID)
		seen := newCounter()
		c.a.Tap.OnRequest(func(r wiretap.Request) {
			if kmsg.Key(r.Key) == kmsg.InitProducerID {
				seen.add()
			}
		})
		hold := c.b.Hold(wiretap.HoldRequest, wiretap.Keys(kmsg.Fetch)) // so that the records are a's to take
		c.Caught(hold, 1)
		c.Send(20)
		if len(off) > 0 {
			seen.await(c.Field, "an id that is initialised by the stale owner", 1)
		} else {
			asked.await(c.Field, "the group's answer", 1)
			c.Await("a's end of the ownership", c.mark, 1, c.a.Is(trial.Kinds(holdfasttest.EventLost)))
		}
		inits = seen.count()
		hold.Lift()
		c.finish()
		return inits
	}
	t.Run("with all rules", func(t *testing.T) {
		if n := schedule(t); n > 0 {
			t.Errorf("a has initialised the id %d times", n)
		}
	})
	t.Run("without the rule", func(t *testing.T) {
		if !nightly() {
			t.Skip("set HOLDFAST_NIGHTLY=1")
		}
		schedule(t, rule.Probe)
	})
}

// Outputs outside of transactions stop with the session, which is the group's: what the cut-off member folds
// then does not leave, since the group does not know it. Without the rule it does.
func TestKafkaCutOffMemberSendsNothing(t *testing.T) {
	schedule := func(t *testing.T, off ...rule.Name) {
		serves(t, serverSide)
		t.Parallel()
		c := newCutOff(t, short(trial.App{Kind: trial.Flow, Protocol: serverSide, Off: off}), false)
		asked, sent := refusals(c.a, kmsg.OffsetFetch, kerr.UnknownMemberID), outputs(c.a)
		c.Send(20)
		if len(off) > 0 {
			sent.await(c.Field, "an output of the stale owner", 1)
			return
		}
		asked.await(c.Field, "the group's answer", 1)
		c.Await("a's end of the ownership", c.mark, 1, c.a.Is(trial.Kinds(holdfasttest.EventLost)))
		if n := sent.count(); n > 0 {
			t.Errorf("%d requests with outputs have left", n)
		}
		c.finish()
	}
	t.Run("with all rules", func(t *testing.T) { schedule(t) })
	t.Run("without the rule", func(t *testing.T) {
		if !nightly() {
			t.Skip("set HOLDFAST_NIGHTLY=1")
		}
		schedule(t, rule.FreshSession)
	})
}

// comeback is a cut-off member whose id is in the group again, as a client's that keeps it over a rejoin,
// while another member has its partition. leave ends that.
func comeback(t *testing.T, app trial.App, holdTakeover bool) (c *cutOff, leave func()) {
	id := make(chan string, 1)
	c = newCutOff(t, app, holdTakeover, func(a *trial.Member) {
		a.Tap.OnRequest(func(r wiretap.Request) {
			if req, err := r.Decoded(); err == nil && kmsg.Key(r.Key) == kmsg.ConsumerGroupHeartbeat {
				select {
				case id <- req.(*kmsg.ConsumerGroupHeartbeatRequest).MemberID:
				default:
				}
			}
		})
	})
	return c, join(t, c.Field, <-id)
}

// told lets the stale owner learn of it: its epoch is refused, it joins again under the same id, and has the
// partition again, under another ownership, when the other member is dead.
func (c *cutOff) told(leave func()) {
	c.TB.Helper()
	fenced := refusals(c.a, kmsg.ConsumerGroupHeartbeat, kerr.FencedMemberEpoch)
	c.heartbeats.Lift()
	fenced.await(c.Field, "the answer to a's heartbeat", 1)
	c.Await("a's end of the ownership", c.mark, 1, c.a.Is(trial.Kinds(holdfasttest.EventLost)))
	leave()
	if c.takeover != nil {
		c.takeover.Lift()
	}
	c.b.Owns()
	mark := c.Mark()
	c.b.Kill()
	c.Await("the partition for a again", mark, 1, c.a.Is(trial.Kinds(holdfasttest.EventAssigned)))
	c.finish()
}

// A member id that comes back after its expulsion: the group knows the id again, and the epoch of the
// partition tells that it has moved. The stale owner is gone at once.
func TestKafkaMemberIDComesBack(t *testing.T) {
	serves(t, serverSide)
	t.Parallel()
	c, leave := comeback(t, short(trial.App{Kind: trial.Flow, Guarantee: holdfast.FencedOutputs, Protocol: serverSide}), true)
	stale := refusals(c.a, kmsg.TxnOffsetCommit, kerr.StaleMemberEpoch)
	c.Send(20)
	stale.await(c.Field, "a's refused commit", 1)
	c.Await("a's end of the ownership", c.mark, 1, c.a.Is(trial.Kinds(holdfasttest.EventLost)))
	c.told(leave)
}

// The same where the other member has taken the id over: that the group knows the member id is not enough to
// initialise the transactional id again, for the epoch tells that this is another life of it.
func TestKafkaMemberIDComesBackAfterATakeover(t *testing.T) {
	serves(t, serverSide)
	t.Parallel()
	c, leave := comeback(t, short(trial.App{Kind: trial.Pipe, Protocol: serverSide}), false)
	asked, inits := refusals(c.a, kmsg.OffsetFetch, kerr.StaleMemberEpoch), newCounter()
	c.a.Tap.OnRequest(func(r wiretap.Request) {
		if kmsg.Key(r.Key) == kmsg.InitProducerID {
			inits.add()
		}
	})
	hold := c.b.Hold(wiretap.HoldRequest, wiretap.Keys(kmsg.Fetch)) // so that the records are a's to take
	c.Caught(hold, 1)
	c.Send(20)
	asked.await(c.Field, "the group's answers", 3)
	if n := inits.count(); n > 0 {
		t.Errorf("a has initialised the id %d times", n)
	}
	hold.Lift()
	c.told(leave)
}

// stand is a client that is a member of the group under an id of another's.
type stand struct {
	f   *trial.Field
	req *kmsg.ConsumerGroupHeartbeatRequest
}

// join joins the group under a member's id, as that member would after it was told of its expulsion, and
// stays in it until leave is called. It is not told by the group of what others do under the id.
func join(t *testing.T, f *trial.Field, memberID string) (leave func()) {
	t.Helper()
	s := &stand{f: f, req: kmsg.NewPtrConsumerGroupHeartbeatRequest()}
	s.req.Group, s.req.MemberID = f.App.Group, memberID
	s.req.RebalanceTimeoutMillis = int32(f.App.Rebalance.Milliseconds())
	s.req.SubscribedTopicNames = []string{f.App.Input}
	s.req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if err := s.heartbeat(); err != nil {
		t.Fatalf("join under the id of a: %v", err)
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(f.App.Session / 10)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if s.heartbeat() != nil {
					return // a itself has joined again
				}
			case <-end:
				return
			}
		}
	}()
	var once sync.Once
	leave = func() { once.Do(func() { close(end) }); <-done }
	t.Cleanup(leave)
	return leave
}

func (s *stand) heartbeat() error {
	resp, err := s.req.RequestWith(s.f.TB.Context(), s.f.Client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil {
		s.req.MemberEpoch = resp.MemberEpoch
	}
	return err
}
