package fence

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// R14: between a poll and AllowRebalance no callback comes, so that what was polled is of the ownerships that
// are there. Without that a record is taken for one of the next ownership:
//
//  1. A poll returns records of a partition.
//  2. A rebalance takes the partition away and gives it back, at the offset that another owner has committed.
//  3. The records are tagged with the new ownership, which has not fetched them.
func TestNoRebalanceBetweenPollAndAllow(t *testing.T) {
	t.Parallel()
	_, p := fakeCluster(t, kfake.SeedTopics(2, "two"))
	p.input = "two"
	writes := testClient(t, p.k, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(p.input))
	for n := range int32(2) {
		if err := writes.ProduceSync(testContext(t), &kgo.Record{Partition: n, Value: []byte("1")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	ends, blocked := make(chan release, 64), make(chan struct{})
	var once sync.Once
	var g *Group
	g = NewGroup(func(_ context.Context, o *Ownership) {
		at := o.Partition()
		g.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{at.Topic: {at.Partition: {Epoch: -1}}})
	}, func(o *Ownership, lost bool) { ends <- release{o, lost} })
	cl, err := g.NewClient(t.Context(), p.k, Session{Group: p.group, HeartbeatInterval: 50 * time.Millisecond}, kgo.ConsumeTopics(p.input),
		kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) { once.Do(func() { close(blocked) }) }))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.CloseAllowingRebalance()
	ctx := testContext(t)
	for cl.PollFetches(ctx).NumRecords() == 0 {
		cl.AllowRebalance()
		if ctx.Err() != nil {
			t.Fatal("no record was polled")
		}
	}
	join(t, p, Session{}) // takes one of the two
	select {
	case <-blocked:
	case e := <-ends:
		t.Fatalf("I2: %v was taken away between the poll of its records and AllowRebalance", e.o.Partition())
	case <-ctx.Done():
		t.Fatal("no rebalance began")
	}
	for n := range int32(2) {
		if o := g.Owned(stream.Partition{Topic: p.input, Partition: n}); o == nil || o.State() != Held {
			t.Errorf("I2: the ownership of partition %d ended between poll and AllowRebalance", n)
		}
	}
	cl.AllowRebalance()
	select {
	case <-ends:
	case <-ctx.Done():
		t.Error("I7: no partition was taken away after AllowRebalance")
	}
}
