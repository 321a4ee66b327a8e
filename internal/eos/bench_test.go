package eos

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	// ours is the engine of our members where a test does not name another.
	ours = "pipe"
	// patience bounds every wait for an event: it is far above what a healthy run takes, so that only
	// a hang meets it.
	patience = 90 * time.Second
)

// bench is one input topic, its copy, and the group that copies.
type bench struct {
	t          *testing.T
	c          *kafkatest.Cluster
	conf       copierConfig
	partitions int32
	producer   *kgo.Client
	seeded     int
	log        *eventLog
	commits    atomic.Int32 // requests of our members that commit an offset through the consumer
	live       *reader      // reads the copy while it is made, with read_committed
}

// newBench makes the topics and starts the reader.
func newBench(t *testing.T, c *kafkatest.Cluster, partitions int32) *bench {
	t.Helper()
	name := kafkatest.UniqueName("eos")
	b := &bench{
		t: t, c: c, partitions: partitions, log: newEventLog(t),
		conf: copierConfig{
			Engine: ours, Addrs: c.Addrs, Group: name,
			Input:    c.CreateTopic(t, name+"-input", partitions, nil),
			Output:   c.CreateTopic(t, name+"-output", partitions, nil),
			Progress: c.CreateTopic(t, name+"-progress", partitions, map[string]string{"cleanup.policy": "compact"}),
			Session:  4 * time.Second, TransactionTimeout: 10 * time.Second, Records: 100,
		},
		producer: c.Client(t, kgo.DefaultProduceTopic(name+"-input")),
	}
	b.live = startReader(b, kgo.ReadCommitted())
	return b
}

// seed adds integers to the input until it has n of them, each once.
func (b *bench) seed(n int) {
	b.t.Helper()
	var rs []*kgo.Record
	for ; b.seeded < n; b.seeded++ {
		v := []byte(strconv.Itoa(b.seeded))
		rs = append(rs, &kgo.Record{Key: v, Value: v})
	}
	if err := b.producer.ProduceSync(b.t.Context(), rs...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// check compares the copy with the input, as the reader saw it that read while it was made, and as one
// does that reads it now. Call it when everything is copied and the copiers are stopped. It returns
// how many records were aborted: those that only read_uncommitted sees.
func (b *bench) check() (aborted int) {
	b.t.Helper()
	found, aborted := b.compare()
	for _, v := range found[:min(len(found), 20)] {
		b.t.Error(v)
	}
	if len(found) > 20 {
		b.t.Errorf("%d violations in all", len(found))
	}
	if n := b.commits.Load(); n > 0 {
		b.t.Errorf("%d requests have committed an offset outside a transaction", n)
	}
	return aborted
}

// compare is check without a verdict.
func (b *bench) compare() (found []string, aborted int) {
	b.t.Helper()
	input := readAll(b.t, b.c, b.conf.Input, kgo.ReadCommitted())
	if n := input.count(); n != b.seeded {
		b.t.Fatalf("the input has %d records, %d were seeded", n, b.seeded)
	}
	final := readAll(b.t, b.c, b.conf.Output, kgo.ReadCommitted())
	b.live.await(final.count())
	for _, r := range []struct {
		name   string
		copied history
	}{{"final", final}, {"concurrent", b.live.history()}} {
		for _, v := range violations(input, r.copied) {
			found = append(found, r.name+" reader: "+v)
		}
	}
	for p, next := range b.committed() {
		if want := int64(len(input[p])); next < want {
			found = append(found, fmt.Sprintf("partition %d: offset %d is committed, the input has %d records", p, next, want))
		}
	}
	return found, readAll(b.t, b.c, b.conf.Output, kgo.ReadUncommitted()).count() - final.count()
}

// progress returns the next offsets that the progress records name.
func (b *bench) progress() map[int32]int64 {
	b.t.Helper()
	next := map[int32]int64{}
	for p := range b.partitions {
		at := stream.Partition{Topic: b.conf.Progress, Partition: p}
		for r, err := range fence.Restore(b.t.Context(), fence.RestoreConfig{Kafka: b.conf.kafka(), Partition: at}) {
			var found fence.Progress
			if err == nil {
				found, err = fence.DecodeProgress(r.Value)
			}
			if err != nil {
				b.t.Fatal(err)
			}
			next[p] = found.Inputs[0].Next
		}
	}
	return next
}

// committed returns the group's next offsets.
func (b *bench) committed() map[int32]int64 {
	b.t.Helper()
	os, err := kadm.NewClient(b.c.Client(b.t)).FetchOffsetsForTopics(b.t.Context(), b.conf.Group, b.conf.Input)
	if err != nil {
		b.t.Fatal(err)
	}
	next := map[int32]int64{}
	os.Each(func(o kadm.OffsetResponse) { next[o.Partition] = max(o.At, 0) })
	return next
}

// nightly reports whether long runs are wanted.
func nightly() bool { return os.Getenv("HOLDFAST_NIGHTLY") == "1" }
