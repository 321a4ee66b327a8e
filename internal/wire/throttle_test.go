package wire

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A broker that throttles a fetch answers at once, and without the partition. That is no broken answer: the read goes
// on with the same leader, and says that it is throttled.
func TestThrottledFetchIsWaitedFor(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "state", Key: []byte("a")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	const throttled = 3
	var fetches, lookups int // of cluster's one goroutine
	cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if fetches++; fetches > throttled {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.FetchResponse)
		resp.ThrottleMillis = 1
		return resp, nil, true
	})
	l := Log{Client: cl, Topic: "state"}
	end := stableEnd(t, l)
	cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		lookups++
		return nil, nil, false
	})
	var mu sync.Mutex
	var told []string
	keys, position := readKeys(t, l, ReadOptions{To: end, OnRetry: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if !IsThrottled(err) {
			t.Errorf("retried for %v, want a throttled answer alone", err)
		}
		told = append(told, err.Error())
	}})
	if strings.Join(keys, " ") != "a" || position != end {
		t.Errorf("got %q up to %d, want a up to %d", keys, position, end)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != throttled || !strings.Contains(told[0], "over its fetch quota, for "+time.Millisecond.String()) {
		t.Errorf("told %q, want %d throttled answers", told, throttled)
	}
	if cluster.Close(); lookups > 1 {
		t.Errorf("asked %d times for the leader, which had answered", lookups)
	}
}
