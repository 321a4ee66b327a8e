package member

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// TestThrottleIsTold has brokers throttle the clients of a member: each answer is told to the hooks, a broker is
// logged once a minute, and an error of what takes long says who it is.
func TestThrottleIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []stream.Throttled
		var log bytes.Buffer
		m := New(Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)), TransactionTimeout: time.Second,
			Hooks: []stream.Hooks{{Throttled: func(e stream.Throttled) { told = append(told, e) }}},
		})
		for range 3 {
			for broker := range int32(2) {
				m.throttle.OnBrokerThrottle(kgo.BrokerMetadata{NodeID: broker, Host: "kafka.example"}, 2*time.Second, true)
			}
			time.Sleep(25 * time.Second)
		}
		m.throttle.OnBrokerThrottle(kgo.BrokerMetadata{NodeID: 1, Host: "kafka.example"}, time.Second, true)
		if len(told) != 7 || told[0] != (stream.Throttled{Broker: 0, Host: "kafka.example", For: 2 * time.Second}) {
			t.Errorf("I6: the hook was told %+v", told)
		}
		if n := strings.Count(log.String(), "a broker throttles this client"); n != 3 {
			t.Errorf("I6: %d lines of 2 brokers in 75 s, want 3:\n%s", n, log.String())
		}
		if text := m.throttle.Since(time.Now()); !strings.Contains(text, "broker 1 (kafka.example)") || !strings.Contains(text, "13s") {
			t.Errorf("I6: the error says %q", text)
		}
		time.Sleep(time.Minute)
		if text := m.throttle.Since(time.Now().Add(-30 * time.Second)); text != "" {
			t.Errorf("the error says %q of a throttle that is over", text)
		}
	})
}
