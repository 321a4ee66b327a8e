package fence

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

func TestTokenIsLiveUnderTheGrantsID(t *testing.T) {
	t.Parallel()
	s := newFakeSession()
	o := s.grant()
	for generation := int32(1); generation < 4; generation++ {
		s.set("member-1", generation)
		if tok, err := o.Token(t.Context()); err != nil || tok != (Token{MemberID: "member-1", Generation: generation}) {
			t.Errorf("token %+v, %v", tok, err)
		}
	}
}

func TestTokenAfterASilentRejoin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		rejoin func(*fakeSession)
	}{
		{"under another id", func(s *fakeSession) { s.set("member-2", 5) }},
		{"under the same id, after a loss", func(s *fakeSession) { s.membershipEnded() }},
		{"in between", func(s *fakeSession) { s.set("", 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeSession()
			o := s.grant()
			c.rejoin(s)
			if _, err := o.Token(t.Context()); !errors.Is(err, stream.ErrOwnershipLost) || o.State() != Gone {
				t.Errorf("I3: token: %v, ownership %v", err, o.State())
			}
		})
	}
	t.Run("with the rule off it passes", func(t *testing.T) {
		t.Parallel()
		s := newFakeSession()
		o := s.grant()
		s.set("member-2", 5)
		if tok, err := o.Token(rule.Without(t.Context(), rule.GrantID)); err != nil || tok.MemberID != "member-2" {
			t.Errorf("token %+v, %v: the rule makes no difference", tok, err)
		}
	})
}

// The token is read before the ownership is checked (R2): a member that is lost and comes back in
// between must not get through.
func TestTokenOrder(t *testing.T) {
	t.Parallel()
	s := newFakeSession()
	o := s.grant()
	live := s.metadata
	s.session.metadata = func() (string, int32) {
		id, generation := live()
		o.Lose(nil) // what happens right after the token was read
		return id, generation
	}
	if _, err := o.Token(t.Context()); !errors.Is(err, stream.ErrOwnershipLost) {
		t.Errorf("I3: a token for an ownership that is gone: %v", err)
	}
}

func TestTokenWhileDrainingIsTheOneOfTheCallback(t *testing.T) {
	t.Parallel()
	s := newFakeSession()
	o := s.grant()
	entry := Token{MemberID: "member-1", Generation: 4}
	if !o.drain(entry) {
		t.Fatal("not drained")
	}
	s.set("member-1", 5)
	if tok, err := o.Token(t.Context()); err != nil || tok != entry {
		t.Errorf("token %+v, %v", tok, err)
	}
	o.Lose(nil)
	if o.drain(entry) {
		t.Error("a gone ownership was drained")
	}
	if _, err := o.Token(t.Context()); !errors.Is(err, stream.ErrOwnershipLost) {
		t.Errorf("token when gone: %v", err)
	}
}

func TestMayInitAsksTheGroup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer error
		want   error
		gone   bool
	}{
		{"known", nil, nil, false},
		{"a rebalance goes on", kerr.RebalanceInProgress, nil, false},
		{"the generation moved on", kerr.IllegalGeneration, nil, false},
		{"unknown member", kerr.UnknownMemberID, stream.ErrOwnershipLost, true},
		{"replaced", kerr.FencedInstanceID, stream.ErrOwnershipLost, true},
		{"no group", kerr.GroupIDNotFound, stream.ErrOwnershipLost, true},
		{"not allowed", kerr.GroupAuthorizationFailed, stream.ErrNotAuthorized, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeSession()
			o := s.grant()
			s.answer = c.answer
			if err := o.MayInit(t.Context()); err != nil || s.asked != 0 {
				t.Fatalf("the first one: %v, asked %d times", err, s.asked)
			}
			if err := o.MayInit(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || s.asked != 1 {
				t.Errorf("I7: the second one: %v, asked %d times", err, s.asked)
			}
			if gone := o.State() == Gone; gone != c.gone {
				t.Errorf("gone %v, want %v", gone, c.gone)
			}
		})
	}
}

func TestMayInitOnlyWhileHeld(t *testing.T) {
	t.Parallel()
	o := newFakeSession().grant()
	o.drain(Token{MemberID: "member-1", Generation: 1})
	if err := o.MayInit(t.Context()); !errors.Is(err, stream.ErrOwnershipLost) {
		t.Errorf("I3: an initialisation while draining: %v", err)
	}
	o.Lose(nil)
	if err := o.MayInit(t.Context()); !errors.Is(err, stream.ErrOwnershipLost) {
		t.Errorf("when gone: %v", err)
	}
}

func TestMayInitWaitsOutTheNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSession()
		o := s.grant()
		s.answer = errors.New("EOF")
		if err := o.MayInit(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- o.MayInit(t.Context()) }()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			t.Errorf("let through without an answer: %v", err)
		default:
		}
		o.Lose(nil)
		if err := <-ended; !errors.Is(err, stream.ErrOwnershipLost) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// e2e tells the session of an answered request that took so long.
func e2e(s *session, key kmsg.Key, took time.Duration) {
	s.OnBrokerE2E(kgo.BrokerMetadata{}, int16(key), kgo.BrokerE2E{TimeToRead: took})
}

// answers sets what the group answers from here on.
func (f *fakeSession) answers(err error) {
	f.mu.Lock()
	f.answer = err
	f.mu.Unlock()
}

func TestFreshCountsFromTheSending(t *testing.T) {
	t.Parallel()
	away := errors.New("no broker answers")
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSession() // its session is 10 s, its rebalance timeout 60 s
		o := s.grant()
		wait := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			return o.AwaitFresh(ctx)
		}
		s.answers(away)
		if wait() == nil {
			t.Error("I4: an output may leave before any answer")
		}
		s.answers(nil)
		if err := wait(); err != nil {
			t.Errorf("the group was asked and knows the member: %v", err)
		}
		s.answers(away)
		time.Sleep(9 * time.Second)
		e2e(s.session, kmsg.Heartbeat, 0)
		time.Sleep(9 * time.Second)
		if err := wait(); err != nil {
			t.Errorf("an answer has not prolonged what was fresh: %v", err)
		}
		e2e(s.session, kmsg.Heartbeat, 9*time.Second+time.Millisecond) // sent before the one above
		time.Sleep(2 * time.Second)
		if wait() == nil {
			t.Error("I4: an output may leave by an answer to what was sent a session ago")
		}
		e2e(s.session, kmsg.Heartbeat, 0) // of any code: the hook does not tell
		if wait() == nil {
			t.Error("an answer has made fresh what was not")
		}
		if err := o.AwaitFresh(rule.Without(t.Context(), rule.FreshSession)); err != nil {
			t.Errorf("with the rule off: %v", err)
		}
		s.answers(kerr.UnknownMemberID)
		if err := wait(); !errors.Is(err, stream.ErrOwnershipLost) || o.State() != Gone {
			t.Errorf("the group was asked and does not know the member: %v, %v", err, o.State())
		}
	})
}

func TestFreshWhileAJoinGroupWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSession()
		o := s.grant()
		join := func() { s.OnBrokerWrite(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), 0, 0, 0, nil) }
		join()
		if s.fresh() {
			t.Error("the JoinGroup of a member that was not fresh makes it so")
		}
		if err := o.AwaitFresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		join()
		time.Sleep(59 * time.Second)
		if !s.fresh() {
			t.Error("not fresh while a JoinGroup waits")
		}
		time.Sleep(time.Second)
		if s.fresh() {
			t.Error("a JoinGroup counts beyond the rebalance timeout")
		}
		e2e(s.session, kmsg.JoinGroup, time.Minute)
		if s.fresh() {
			t.Error("fresh by the answer to a JoinGroup that was sent a session ago")
		}
		s.set("member-2", 5)
		if err := o.AwaitFresh(t.Context()); !errors.Is(err, stream.ErrOwnershipLost) {
			t.Errorf("under another member id: %v", err)
		}
	})
}
