package acceptance

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

type foldFunc = func(context.Context, *holdfast.Key[tally], stream.Record) error

// tapOf puts a proxy before each broker, for one flow of the test.
func tapOf(t *testing.T, c *kafkatest.Cluster) *wiretap.Cluster {
	t.Helper()
	tap, err := wiretap.NewCluster(c.Addrs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tap.Close(); err != nil {
			t.Error(err)
		}
	})
	return tap
}

// behind sends every connection of a flow through the proxies.
func behind(tap *wiretap.Cluster, c holdfast.Config[tally]) holdfast.Config[tally] {
	c.Kafka.Opts = append(c.Kafka.Opts, kgo.Dialer(tap.Dialer()))
	return c
}

// rarely lets a flow commit only when its partitions are taken away, or asked for by a fold.
func rarely(c holdfast.Config[tally]) holdfast.Config[tally] {
	c.Commit.Persist, c.Commit.Interval = time.Hour, time.Hour
	return c
}

// shortSession has the group expel a silent member after two seconds.
func shortSession(c holdfast.Config[tally]) holdfast.Config[tally] {
	c.Member.SessionTimeout, c.Member.HeartbeatInterval = 2*time.Second, 200*time.Millisecond
	return c
}

// awaitFault waits until a fault has applied to n requests.
func awaitFault(t *testing.T, f *wiretap.Fault, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Await(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// cutOff holds what would tell a member that it lost its partitions: its group requests, and the
// fetches that would bring it further records. It returns when none of them is under way.
func cutOff(t *testing.T, tap *wiretap.Cluster) (lift func()) {
	t.Helper()
	group := tap.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.LeaveGroup))
	fetch := tap.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.Fetch))
	awaitFault(t, group, 1)
	awaitFault(t, fetch, 1)
	return sync.OnceFunc(func() { group.Lift(); fetch.Lift() })
}

// counter counts the records that a fold has seen.
type counter struct {
	mu   sync.Mutex
	n    int
	wake chan struct{}
}

func newCounter() *counter { return &counter{wake: make(chan struct{})} }

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	close(c.wake)
	c.wake = make(chan struct{})
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counter) await(t *testing.T, n int) {
	t.Helper()
	limit := time.After(patience)
	for {
		c.mu.Lock()
		have, wake := c.n, c.wake
		c.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-wake:
		case <-limit:
			t.Fatalf("%d of %d folds within %v", have, n, patience)
		}
	}
}

// counting has a fold counted after it returned nil.
func counting(c *counter, f foldFunc) foldFunc {
	return func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
		err := f(ctx, k, r)
		if err == nil {
			c.add()
		}
		return err
	}
}

// send writes one record a value to partition 0 under key.
func send(t *testing.T, cl *kgo.Client, topic, key string, values ...string) {
	t.Helper()
	var rs []*kgo.Record
	for _, v := range values {
		rs = append(rs, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(v)})
	}
	if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// numbers are the values from..to-1.
func numbers(from, to int) (values []string) {
	for i := from; i < to; i++ {
		values = append(values, strconv.Itoa(i))
	}
	return values
}
