package member

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// R25: a batch of which compaction has left nothing is told of by the client's hook alone. The worker that sleeps
// looks for the end then, and one that is given records does not.
func TestEmptiedBatchWakesTheWorker(t *testing.T) {
	t.Parallel()
	p := stream.Partition{Topic: "in", Partition: 1}
	w := &worker{queue: queue{arrived: make(chan struct{}, 1)}}
	w.tail.stable.Store(5)
	e := emptied{&Member{workers: map[stream.Partition]*worker{p: w}}}
	e.OnFetchBatchRead(kgo.BrokerMetadata{}, p.Topic, p.Partition, kgo.FetchBatchMetrics{NumRecords: 2})
	e.OnFetchBatchRead(kgo.BrokerMetadata{}, p.Topic, p.Partition+1, kgo.FetchBatchMetrics{})
	if got := w.tail.stable.Load(); got != 5 || len(w.queue.arrived) != 0 {
		t.Errorf("after records, or for another partition, the end is %d (want 5), and the worker was woken %d times", got, len(w.queue.arrived))
	}
	e.OnFetchBatchRead(kgo.BrokerMetadata{}, p.Topic, p.Partition, kgo.FetchBatchMetrics{})
	if got := w.tail.stable.Load(); got != math.MaxInt64 {
		t.Errorf("I7: the end is still taken to be %d", got)
	}
	if len(w.queue.arrived) != 1 {
		t.Error("I7: the worker sleeps on")
	}
}
