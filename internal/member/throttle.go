package member

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// throttleLogged is how often a broker that throttles has a line in the log.
const throttleLogged = time.Minute

// throttle is what the brokers tell all clients of a member of quotas.
type throttle struct {
	wire.Throttle

	mu     sync.Mutex
	logged map[int32]time.Time // by broker
}

// due reports whether a broker that throttles is to be logged, and counts it as logged.
func (t *throttle) due(broker int32, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.logged[broker]; ok && now.Sub(last) < throttleLogged {
		return false
	}
	if t.logged == nil {
		t.logged = map[int32]time.Time{}
	}
	t.logged[broker] = now
	return true
}

// throttled is called by clients, with each answer that tells of a quota.
func (m *Member) throttled(broker int32, host string, interval time.Duration) {
	if m.throttle.due(broker, time.Now()) {
		m.log.Warn("a broker throttles this client: it is over a quota", "broker", broker, "host", host, "interval", interval)
	}
	call(m.hooks, func(h stream.Hooks) func(stream.Throttled) { return h.Throttled },
		stream.Throttled{Broker: broker, Host: host, For: interval})
}
