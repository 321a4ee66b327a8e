package fence

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A JoinGroup waits for the other members for up to the rebalance timeout. That is not counted: not
// before the first answer, not when the wait fails, and once for all that were sent since an answer.
func TestSilenceWhileAJoinGroupWaits(t *testing.T) {
	t.Parallel()
	join := func(s *fakeSession) { write(s, kmsg.JoinGroup) }
	cut := func(s *fakeSession) {
		s.OnBrokerE2E(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), kgo.BrokerE2E{ReadErr: errors.New("connection reset")})
	}
	for name, c := range map[string]struct {
		do   func(*fakeSession)
		want time.Duration
	}{
		"the first join of a member": {func(s *fakeSession) { join(s); time.Sleep(50 * time.Second) }, 0},
		"a join that is cut":         {func(s *fakeSession) { join(s); time.Sleep(50 * time.Second); cut(s) }, 0},
		"a join past its time":       {func(s *fakeSession) { join(s); time.Sleep(65 * time.Second) }, 5 * time.Second},
		"nothing was sent":           {func(*fakeSession) { time.Sleep(50 * time.Second) }, 50 * time.Second},
		"joins that are never answered": {func(s *fakeSession) {
			for range 10 {
				join(s)
				time.Sleep(59 * time.Second)
				cut(s)
			}
		}, 530 * time.Second},
		"an answer": {func(s *fakeSession) {
			join(s)
			time.Sleep(50 * time.Second)
			e2e(s.session, kmsg.JoinGroup, 0)
			write(s, kmsg.SyncGroup) // it was granted
			time.Sleep(time.Second)
		}, time.Second},
		"a join that is granted past its time": {func(s *fakeSession) {
			join(s)
			time.Sleep(65 * time.Second)
			e2e(s.session, kmsg.JoinGroup, 0)
			write(s, kmsg.SyncGroup)
			time.Sleep(time.Second)
		}, 6 * time.Second},
		"joins that are granted, and syncs that are not": {func(s *fakeSession) {
			for range 5 {
				join(s)
				time.Sleep(59 * time.Second)
				e2e(s.session, kmsg.JoinGroup, 0)
				write(s, kmsg.SyncGroup)
				time.Sleep(time.Second)
				e2e(s.session, kmsg.SyncGroup, 0)
			}
		}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeSession()
				s.silence() // the count begins with the first look
				c.do(s)
				if got := s.silence(); got != c.want {
					t.Errorf("silent for %v, want %v", got, c.want)
				}
			})
		})
	}
}

func write(s *fakeSession, key kmsg.Key) {
	s.OnBrokerWrite(kgo.BrokerMetadata{}, int16(key), 0, 0, 0, nil)
}

// beat sends a request that is answered.
func beat(s *fakeSession, key kmsg.Key) {
	write(s, key)
	e2e(s.session, key, 0)
}

const betweenBeats = 3 * time.Second

// usefulness is what the client does behind an answer, and how long the group has been silent then.
var usefulness = map[string]struct {
	do   func(*fakeSession)
	want time.Duration
}{
	"heartbeats": {func(s *fakeSession) {
		for range 10 {
			beat(s, kmsg.Heartbeat)
			time.Sleep(betweenBeats)
		}
	}, betweenBeats},
	"heartbeats of a coordinator that was looked for once": {func(s *fakeSession) {
		write(s, kmsg.FindCoordinator)
		for range 10 {
			beat(s, kmsg.ConsumerGroupHeartbeat)
			time.Sleep(betweenBeats)
		}
	}, betweenBeats},
	"a coordinator that is never available": {func(s *fakeSession) {
		for range 10 {
			write(s, kmsg.FindCoordinator)
			beat(s, kmsg.ConsumerGroupHeartbeat)
			time.Sleep(betweenBeats)
		}
	}, 10 * betweenBeats},
	"one that is not available any more": {func(s *fakeSession) {
		beat(s, kmsg.Heartbeat)
		beat(s, kmsg.Heartbeat)
		time.Sleep(betweenBeats)
		beat(s, kmsg.Heartbeat)
		for range 9 {
			write(s, kmsg.FindCoordinator)
			beat(s, kmsg.Heartbeat)
			time.Sleep(betweenBeats)
		}
	}, 10 * betweenBeats},
	"joins that are refused": {func(s *fakeSession) {
		for range 40 {
			beat(s, kmsg.JoinGroup)
			time.Sleep(betweenBeats)
		}
	}, 60 * time.Second}, // two minutes, and a JoinGroup may take one
	"a membership that never lasts to its first heartbeat": {func(s *fakeSession) {
		for range 10 {
			beat(s, kmsg.JoinGroup)
			beat(s, kmsg.SyncGroup)
			s.seated()
			beat(s, kmsg.Heartbeat)
			s.membershipEnded()
			time.Sleep(betweenBeats)
		}
	}, 10 * betweenBeats},
	"heartbeats of one that is not in yet": {func(s *fakeSession) {
		s.membershipEnded()
		for range 10 {
			beat(s, kmsg.ConsumerGroupHeartbeat)
			time.Sleep(betweenBeats)
		}
	}, 10 * betweenBeats},
	"heartbeats of our own beside those that are refused": {func(s *fakeSession) {
		for range 10 {
			s.membershipEnded()
			s.seated()
			beat(s, kmsg.Heartbeat)
			for range 3 {
				_ = s.askedOurselves(func() error { beat(s, kmsg.Heartbeat); return kerr.UnknownServerError })
			}
			s.membershipEnded()
			time.Sleep(betweenBeats)
		}
	}, 10 * betweenBeats},
	"one of our own that is granted": {func(s *fakeSession) {
		time.Sleep(betweenBeats)
		_ = s.askedOurselves(func() error { beat(s, kmsg.Heartbeat); return nil })
	}, 0},
	"a rebalance": {func(s *fakeSession) {
		beat(s, kmsg.Heartbeat)
		time.Sleep(betweenBeats)
		beat(s, kmsg.Heartbeat) // REBALANCE_IN_PROGRESS
		write(s, kmsg.JoinGroup)
		time.Sleep(40 * time.Second)
	}, 0},
}

// An answer that is an error is none: what the client does behind it tells that it was one.
func TestSilenceEndsWithAUsefulAnswerOnly(t *testing.T) {
	t.Parallel()
	for name, c := range usefulness {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeSession()
				s.silence()
				s.seated()
				c.do(s)
				if got := s.silence(); got != c.want {
					t.Errorf("I6: silent for %v, want %v", got, c.want)
				}
			})
		})
	}
}

// Nor does it keep an owner's outputs going: a coordinator that has been deposed answers for ever, and the
// member may be expelled at its successor (R16).
func TestErrorsDoNotKeepASessionFresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSession()
		s.silence()
		s.seated()
		s.confirmed(s.now())
		for range 20 { // of a session of 10 s
			time.Sleep(time.Second)
			write(s, kmsg.ConsumerGroupHeartbeat)
			e2e(s.session, kmsg.ConsumerGroupHeartbeat, 0) // NOT_COORDINATOR
			write(s, kmsg.FindCoordinator)
		}
		if s.fresh() {
			t.Error("I3: outputs may leave 20 s after the last good answer, with a session of 10 s")
		}
	})
}
