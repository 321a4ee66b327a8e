package fence

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/stream"
)

// The tests of this file are about what guarantees that each ownership ends (R24), whatever the client
// tells, and whatever it is about as it is closed.

// clientClosed is what the client calls at the end of its Close.
func (c *callbacks) clientClosed() { ending{c.Group}.OnClientClosed(nil) }

// allEnded wants each of os gone, released once, and lost unless it is among the drained.
func (c *callbacks) allEnded(t *testing.T, os []*Ownership, drained ...*Ownership) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range os {
		if o == nil {
			t.Error("an ownership was not granted")
			continue
		}
		var ends []release
		for _, e := range c.ended {
			if e.o == o {
				ends = append(ends, e)
			}
		}
		switch wantLost := !slices.Contains(drained, o); {
		case o.State() != Gone:
			t.Errorf("I6: ownership %d of %v never ends: it is %v", o.Number(), o.Partition(), o.State())
		case len(ends) != 1:
			t.Errorf("I6: ownership %d of %v was released %d times, want once", o.Number(), o.Partition(), len(ends))
		case ends[0].lost != wantLost:
			t.Errorf("I6: ownership %d of %v was released as lost: %v, want %v", o.Number(), o.Partition(), ends[0].lost, wantLost)
		case wantLost != errors.Is(o.Cause(), stream.ErrOwnershipLost):
			t.Errorf("I6: ownership %d of %v ended by %v", o.Number(), o.Partition(), o.Cause())
		}
		if c.Owned(o.Partition()) == o {
			t.Errorf("I6: ownership %d of %v is still owned", o.Number(), o.Partition())
		}
	}
}

// A client may be closed without a word about what it has given.
func TestClosedClientEndsWhatItHasNotTakenBack(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t.Context())
	c.assign(0, 1, 2)
	all := []*Ownership{c.of(0), c.of(1), c.of(2)}
	c.revoke(0)
	all[1].Lose(errors.New("it has ended by itself"))
	c.during = func(o *Ownership, lost bool) {
		if _, err := o.Token(t.Context()); !lost || !errors.Is(err, stream.ErrOwnershipLost) {
			t.Errorf("I3: nothing may be flushed: lost %v, token %v", lost, err)
		}
	}
	c.clientClosed()
	c.clientClosed() // closed twice
	c.allEnded(t, all[:1], all[0])
	c.allEnded(t, all[2:])
	if len(c.ended) != 3 {
		t.Errorf("I6: %d ownerships were released, want 3", len(c.ended))
	}
}

// What a member still holds when it leaves is drained with what the client names: a client that has forgotten
// a partition names it no more, and still the group has it as the member's.
func TestLeavingDrainsAllThatIsHeld(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t.Context())
	c.assign(0, 1)
	all := []*Ownership{c.of(0), c.of(1)}
	c.shut() // as Close begins
	c.revoke(1)
	c.clientClosed()
	c.allEnded(t, all, all...)
}

// A membership ends for all that is owned, not for what the client still knows of.
func TestLostMembershipEndsAllThatIsHeld(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t.Context())
	c.assign(0, 1)
	all := []*Ownership{c.of(0), c.of(1)}
	c.lose(1)
	c.allEnded(t, all)
	c.s.set("member-2", 4)
	c.assign() // the next session begins with nothing
	if c.of(0) != nil {
		t.Error("I3: a partition was granted that the group did not assign to this membership")
	}
}

// Nothing comes after the end: neither a callback, nor what rejoined silently, nor a renewal.
func TestNothingIsGrantedAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*callbacks){
		"closed":  (*callbacks).clientClosed,
		"closing": func(c *callbacks) { c.shut() },
		"another protocol than the caller counts on": func(c *callbacks) { close(c.s.fellBack) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCallbacks(t.Context())
			c.assign(0, 1)
			all := []*Ownership{c.of(0), c.of(1)}
			all[1].Lose(stream.ErrOwnershipLost)
			end(c)
			if o, err := c.Renew(t.Context(), all[1]); o != nil || err != nil {
				t.Errorf("I6: renewed %v, %v", o, err)
			}
			c.s.set("member-2", 7) // a silent rejoin: what stays would be granted anew
			c.assign(5)
			if c.of(0) != nil || c.of(1) != nil || c.of(5) != nil || len(c.granted) != 2 {
				t.Errorf("I6: %d were granted, want 2", len(c.granted))
			}
			c.allEnded(t, all)
			c.revoke(0, 1, 5)
			c.lose(0, 1, 5)
			c.clientClosed()
			c.allEnded(t, all)
		})
	}
}

// An assigned callback is under way as the client is closed: what it grants is released, once its assigned has
// returned, and not before.
func TestCloseWaitsForACallbackUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCallbacks(t.Context())
		c.assign(0)
		returned, assigning := make(chan struct{}), c.assigned
		c.assigned = func(ctx context.Context, o *Ownership) {
			assigning(ctx, o)
			<-returned
		}
		var wg sync.WaitGroup
		wg.Go(func() { c.assign(1) })
		synctest.Wait()
		wg.Go(c.clientClosed)
		synctest.Wait()
		all := []*Ownership{c.of(0), c.of(1)}
		if len(c.ended) != 0 || all[1] == nil {
			t.Errorf("I6: %d were released while the callback was under way, owned %v", len(c.ended), all)
		}
		close(returned)
		wg.Wait()
		c.allEnded(t, all)
	})
}

// A renewal asks the group, which says nothing, as the client is closed. The client answers nothing any more.
func TestRenewalEndsWithTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCallbacks(t.Context())
		c.assign(0)
		gone := c.of(0)
		gone.Lose(stream.ErrOwnershipLost)
		c.s.answer = kgo.ErrClientClosed
		limit, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if renewed, err := c.Renew(limit, gone); renewed != nil || err != nil {
				t.Errorf("I6: the renewal goes on without a client, and gives %v, %v", renewed, err)
			}
		})
		time.Sleep(time.Minute)
		c.clientClosed()
		closed := time.Now()
		if wg.Wait(); time.Since(closed) > 0 {
			t.Errorf("I6: the renewal went on for %v without a client", time.Since(closed))
		}
	})
}

// A renewal that came first is released with the rest.
func TestRenewedOwnershipEndsWithTheClient(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t.Context())
	c.assign(0)
	c.of(0).Lose(stream.ErrOwnershipLost)
	renewed, err := c.Renew(t.Context(), c.of(0))
	if err != nil || renewed == nil {
		t.Fatal(renewed, err)
	}
	c.clientClosed()
	c.allEnded(t, []*Ownership{renewed})
}

// A caller's function that does not return, as it panics or ends its goroutine, leaves no ownership held.
func TestReleaseThatDoesNotReturnEndsTheOwnership(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t.Context())
	c.assign(0)
	o := c.of(0)
	c.during = func(*Ownership, bool) { runtime.Goexit() }
	c.revoke(0)
	if o.State() != Gone {
		t.Errorf("I3: the callback has returned, and the ownership is %v", o.State())
	}
}

// heard is a line that the client logs, so many times.
type heard struct {
	line  string
	times atomic.Int32
	at    chan struct{}
}

func newHeard(line string, times int32) *heard {
	h := &heard{line: line, at: make(chan struct{})}
	h.times.Store(times)
	return h
}

// log is a logger of the client.
type log []*heard

func (log) Level() kgo.LogLevel { return kgo.LogLevelInfo }
func (l log) Log(_ kgo.LogLevel, line string, _ ...any) {
	for _, h := range l {
		if line == h.line && h.times.Add(-1) == 0 {
			close(h.at)
		}
	}
}

// assignments answers the heartbeats of a KIP-848 group of one member, in the order of epochs.
type assignments struct {
	topic [16]byte
	each  [][]int32
	mu    sync.Mutex
	next  int
	// held, by epoch, is waited for before the assignment is told; a heartbeat that comes early changes nothing.
	held map[int]<-chan struct{}
}

func (a *assignments) answer(req kmsg.Request) (kmsg.Response, error, bool) {
	beat := req.(*kmsg.ConsumerGroupHeartbeatRequest)
	resp := beat.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	resp.MemberID, resp.HeartbeatIntervalMillis, resp.MemberEpoch = &beat.MemberID, 20, beat.MemberEpoch
	a.mu.Lock()
	defer a.mu.Unlock()
	if beat.MemberEpoch < 0 || a.next == len(a.each) {
		return resp, nil, true
	}
	if hold := a.held[a.next]; hold != nil {
		select {
		case <-hold:
		default:
			return resp, nil, true
		}
	}
	resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{
		Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{{TopicID: a.topic, Partitions: a.each[a.next]}},
	}
	a.next++
	resp.MemberEpoch = int32(a.next)
	return resp, nil, true
}

// noOffsets answers a member of that group: nothing is committed.
func noOffsets(req kmsg.Request) (kmsg.Response, error, bool) {
	asked := req.(*kmsg.OffsetFetchRequest)
	resp := asked.ResponseKind().(*kmsg.OffsetFetchResponse)
	for _, g := range asked.Groups {
		group := kmsg.OffsetFetchResponseGroup{Group: g.Group}
		for _, topic := range g.Topics {
			one := kmsg.OffsetFetchResponseGroupTopic{Topic: topic.Topic, TopicID: topic.TopicID}
			for _, p := range topic.Partitions {
				one.Partitions = append(one.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{Partition: p, Offset: -1, LeaderEpoch: -1})
			}
			group.Topics = append(group.Topics, one)
		}
		resp.Groups = append(resp.Groups, group)
	}
	return resp, nil, true
}

// The client of KIP-848 itself: partition 0 is taken away by a heartbeat while the assigned callback of 1 is
// under way, and the member leaves before that returns. The client names 1 alone, and closes.
func TestClientThatForgetsAPartition(t *testing.T) {
	t.Parallel()
	t.Run("the Group is closed: all is drained", func(t *testing.T) {
		t.Parallel()
		c := forgets(t, func(c *callbacks) {
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		c.allEnded(t, c.granted, c.granted...)
	})
	t.Run("the client is closed without it: what it has forgotten is lost", func(t *testing.T) {
		t.Parallel()
		c := forgets(t, func(c *callbacks) { c.client.CloseAllowingRebalance() })
		c.allEnded(t, c.granted[:1])
		c.allEnded(t, c.granted[1:], c.granted[1:]...)
	})
}

// forgets plays that, and returns what was granted and ended: partition 0 first.
func forgets(t *testing.T, leave func(*callbacks)) *callbacks {
	t.Helper()
	cluster, p := fakeCluster(t, kfake.SeedTopics(2, "two"))
	p.input = "two"
	assigning := make(chan struct{})
	takenAway := newHeard("heartbeat saw a change in group status; partitions were added or lost", 2)
	leaving := newHeard("heartbeat errored again while waiting for user revoke to finish", 1)
	script := &assignments{topic: topicID(t, p.k, p.input), each: [][]int32{{0}, {0, 1}, {1}}, held: map[int]<-chan struct{}{2: assigning}}
	control := func(key kmsg.Key, answer func(kmsg.Request) (kmsg.Response, error, bool)) {
		cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			return answer(req)
		})
	}
	control(kmsg.ConsumerGroupHeartbeat, script.answer)
	control(kmsg.OffsetFetch, noOffsets)

	c := &callbacks{}
	c.Group = NewGroup(func(_ context.Context, o *Ownership) {
		c.mu.Lock()
		c.granted = append(c.granted, o)
		c.mu.Unlock()
		if o.Partition().Partition == 1 {
			close(assigning)
			within(t, leaving.at, "the client has been told to leave while its callback is under way")
		}
	}, func(o *Ownership, lost bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = append(c.ended, release{o, lost})
	})
	_, err := c.NewClient(t.Context(), p.k, Session{Group: p.group, Protocol: ServerSide, HeartbeatInterval: 20 * time.Millisecond},
		kgo.ConsumeTopics(p.input), kgo.WithLogger(log{takenAway, leaving}))
	if err != nil {
		t.Fatal(err)
	}
	within(t, takenAway.at, "a heartbeat takes partition 0 away")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		leave(c)
	}()
	within(t, closed, "the client is closed")
	if len(c.granted) != 2 {
		t.Fatalf("%d partitions were granted, want 2", len(c.granted))
	}
	return c
}

func within(t *testing.T, done <-chan struct{}, what string) {
	select {
	case <-done:
	case <-time.After(patience):
		t.Errorf("not within %v: %s", patience, what)
	}
}
