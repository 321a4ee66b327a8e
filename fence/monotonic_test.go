package fence

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a session compares are readings of the monotonic clock, those that it takes itself and those that it
// makes of a request's: a wall clock that is set back by an hour in a moment would otherwise prolong a
// session that is over (R16). A process cannot set its own wall clock, so what is shown is that no reading
// has lost the monotonic part; time.Time tells it in its text.
func TestSessionCountsOnTheMonotonicClock(t *testing.T) {
	t.Parallel()
	s := newSession()
	s.sessionTimeout, s.rebalanceTimeout = time.Minute, time.Hour
	s.silence()
	s.confirmed(s.now())
	e2e(s, kmsg.Heartbeat, time.Millisecond)
	s.OnBrokerWrite(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), 0, 0, 0, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, at := range map[string]time.Time{"now": s.now(), "answered": s.answered, "joinSent": s.joinSent, "heard": s.useful.heard, "proven": s.useful.proven, "waiting": s.useful.waiting} {
		if at.IsZero() || !strings.Contains(at.String(), " m=") {
			t.Errorf("%s is %s, which the wall clock can move", name, at)
		}
	}
}

// The freshness of a session by a clock that the test moves: it ends with the session timeout after what was
// sent, and a JoinGroup that waits prolongs it up to the rebalance timeout.
func TestSessionEndsByItsClock(t *testing.T) {
	t.Parallel()
	clock := time.Now()
	s := newSession()
	s.now, s.sessionTimeout, s.rebalanceTimeout = func() time.Time { return clock }, time.Minute, time.Hour
	expect := func(want bool, after time.Duration) {
		t.Helper()
		clock = clock.Add(after)
		if s.fresh() != want {
			t.Errorf("fresh is %t %v later, want %t", !want, after, want)
		}
	}
	expect(false, 0)
	s.confirmed(clock)
	expect(true, time.Minute-time.Nanosecond)
	s.OnBrokerWrite(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), 0, 0, 0, nil)
	expect(true, time.Nanosecond)
	expect(true, time.Hour-2*time.Nanosecond)
	expect(false, time.Nanosecond)
}
