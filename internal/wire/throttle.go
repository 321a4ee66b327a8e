package wire

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Throttled is an answer without records, by which a broker says that the client is over its fetch quota. The client
// keeps its next request back for that long (KIP-219), so that a read goes on by asking again.
type Throttled struct{ For time.Duration }

func (t *Throttled) Error() string {
	return fmt.Sprintf("the broker throttles this client, which is over its fetch quota, for %v", t.For)
}

// IsThrottled reports whether an error is an answer of a broker that throttles the client: it is there, and the read
// will go on.
func IsThrottled(err error) bool {
	_, ok := errors.AsType[*Throttled](err)
	return ok
}

// Throttle is a hook of clients that keeps what brokers have told them of quotas. It is safe for concurrent use.
type Throttle struct {
	// Tell, if not nil, is called with each answer that tells of a quota.
	Tell func(broker int32, host string, interval time.Duration)

	mu     sync.Mutex
	broker int32
	host   string
	until  time.Time // the latest end of what was told
	sum    time.Duration
}

var _ kgo.HookBrokerThrottle = (*Throttle)(nil)

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (t *Throttle) OnBrokerThrottle(meta kgo.BrokerMetadata, interval time.Duration, _ bool) {
	t.mu.Lock()
	if until := time.Now().Add(interval); until.After(t.until) {
		t.broker, t.host, t.until = meta.NodeID, meta.Host, until
	}
	t.sum += interval
	t.mu.Unlock()
	if t.Tell != nil {
		t.Tell(meta.NodeID, meta.Host, interval)
	}
}

// Last returns which broker has throttled the clients up to when; a zero time: none has.
func (t *Throttle) Last() (broker int32, host string, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broker, t.host, t.until
}

// Since says, as the end of a sentence, who has throttled the clients and for how long, if that reached beyond
// a time; else it is "". The duration is that of all answers so far.
func (t *Throttle) Since(at time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until.IsZero() || !t.until.After(at) {
		return ""
	}
	return fmt.Sprintf("broker %d (%s) throttles this client, which is over a quota: for %v in all", t.broker, t.host, t.sum)
}
