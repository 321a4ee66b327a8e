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

	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// A client that was to speak KIP-848 and sends a JoinGroup has fallen back: nothing is granted, and it is
// told. One that was to speak a classic protocol sends nothing else.
func TestFallBackGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, expect := range map[string]bool{"ServerSide": true, "classic": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCallbacks(t.Context())
			c.s.expectServerSide = expect
			for range 2 { // a client tries again
				c.s.OnBrokerWrite(kgo.BrokerMetadata{}, int16(kmsg.ConsumerGroupHeartbeat), 0, 0, 0, nil)
			}
			select {
			case <-c.FellBack():
				t.Fatal("it counts as fallen back before it has sent a JoinGroup")
			default:
			}
			for range 2 {
				c.s.OnBrokerWrite(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), 0, 0, 0, nil)
			}
			c.assign(0)
			select {
			case <-c.FellBack():
				if !expect || c.of(0) != nil {
					t.Errorf("fell back, want that: %v, with ownership %v", expect, c.of(0))
				}
			default:
				if expect || c.of(0) == nil {
					t.Errorf("has not fallen back, want that: %v, with ownership %v", !expect, c.of(0))
				}
			}
		})
	}
}

// Before the first answer of the group the protocol is the one that was asked for: epoch 0 is that of a
// member that joins, and no commit is checked against it.
func TestNoTokenWithEpochZero(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		expect bool
		least  int32
	}{"ServerSide": {true, 1}, "classic": {false, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeSession()
			s.expectServerSide = c.expect
			o := s.grant()
			s.set(o.MemberID(), c.least-1)
			if token, err := o.Token(t.Context()); !errors.Is(err, stream.ErrOwnershipLost) {
				t.Errorf("I8: token %+v of a member that only joins, %v", token, err)
			}
			s.set(o.MemberID(), c.least)
			if token, err := o.Token(t.Context()); err != nil || token.Generation != c.least {
				t.Errorf("token %+v, %v", token, err)
			}
		})
	}
}

// Under KIP-848 an old epoch is no proof that the group knows this life of the member: it may have expelled
// it and taken it in again under the same id. It is asked again until the member has another epoch.
func TestMayInitNotUnderAnOldEpoch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSession()
		current := int32(2)
		s.ask = func(_ context.Context, _ string, epoch int32, _ stream.Partition) error {
			if s.asked++; epoch < current {
				return kerr.StaleMemberEpoch
			}
			return nil
		}
		o := s.grant()
		if err := o.MayInit(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- o.MayInit(t.Context()) }()
		time.Sleep(10 * time.Second)
		select {
		case err := <-ended:
			t.Fatalf("I7: let through under an old epoch: %v", err)
		default:
		}
		s.set("member-1", 2)
		if err := <-ended; err != nil || s.asked < 2 {
			t.Errorf("under the present epoch: %v, asked %d times", err, s.asked)
		}
	})
}

// What a session is without its fields is the brokers' under ServerSide, and ours else.
func TestSessionDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given Session
		want  Session
	}{
		{Session{}, Session{SessionTimeout: 10 * time.Second, HeartbeatInterval: 3 * time.Second}},
		{Session{Protocol: Eager, SessionTimeout: 6 * time.Second}, Session{SessionTimeout: 6 * time.Second, HeartbeatInterval: 2 * time.Second}},
		{Session{Protocol: ServerSide}, Session{SessionTimeout: 45 * time.Second, HeartbeatInterval: 5 * time.Second}},
		{Session{Protocol: ServerSide, SessionTimeout: 6 * time.Second, HeartbeatInterval: time.Second}, Session{SessionTimeout: 6 * time.Second, HeartbeatInterval: time.Second}},
	} {
		c.want.Protocol, c.want.RebalanceTimeout = c.given.Protocol, time.Minute
		if got := c.given.WithDefaults(); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.given, got, c.want)
		}
	}
	none := kafka.Config{Brokers: []string{"127.0.0.1:1"}}
	if _, err := newCallbacks(t.Context()).NewClient(t.Context(), none, Session{Group: "g", Protocol: 3}); !errors.Is(err, stream.ErrConfig) {
		t.Errorf("an unknown protocol: %v", err)
	}
}
