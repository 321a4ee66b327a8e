package acceptance

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/hooklog"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// Partitions were added while the flow was down: it refuses, also with Rebuild, since keys have moved. The way that
// the hint names leads to one state a key: another topic, a pipe that fills it by key, and a group of its own.
// Public case G8.
func TestKafkaPartitionsAddedWhileStopped(t *testing.T) {
	t.Parallel()
	b := newBench(t, holdfast.FencedState)
	b.fold10()
	b.widen(b.input, 2)
	for _, policy := range []holdfast.Disagreement{holdfast.StopAndAsk, holdfast.Rebuild} {
		b.conf.Start.Disagreement = policy
		e := named(t, startError(t, b.conf, patience), holdfast.ErrInputChanged, "had 1 partitions and has 2")
		if strings.Contains(e.Hint, "Rebuild") || !strings.Contains(e.Hint, "with a pipe") || !strings.Contains(e.Hint, "a new group") {
			t.Errorf("the hint of %v does not name the way out: %s", policy, e.Hint)
		}
	}
	b.conf.Start.Disagreement = holdfast.StopAndAsk
	b.verify(0, 10) // nothing was dropped
	keyed(t, b.k, b.input, 10, 30)
	b.rekeyed(30)
}

// rekeyed goes the way out of an input of n records that has got partitions.
func (b *bench) rekeyed(n int) {
	t := b.t
	t.Helper()
	wider := b.k.CreateTopic(t, b.input+"-wider", 3, nil)
	log := hooklog.New(t, hooklog.Member{Name: "pipe", Patience: patience})
	p, err := pipe.New(pipe.Config{
		Kafka: b.conf.Kafka, Group: wider + "-copy", Inputs: []string{b.input}, Outputs: []string{wider}, Create: &holdfast.TopicConfig{},
		Func:  func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward(wider); return nil },
		Hooks: []holdfast.Hooks{log.Hooks()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var copying sync.WaitGroup
	copying.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for got := 0; got < n; got = len(readAll(t, b.k, wider, kgo.ReadCommitted())) {
		hooklog.Await(log, 0, func(stream.Committed) bool { return true })
	}
	cancel()
	copying.Wait()
	home, next := map[string]int32{}, map[int32]int64{}
	for _, r := range readAll(t, b.k, wider, kgo.ReadCommitted()) {
		if p, ok := home[string(r.Key)]; ok && p != r.Partition {
			t.Errorf("key %s is in partitions %d and %d of the topic that the pipe has filled", r.Key, p, r.Partition)
		}
		home[string(r.Key)] = r.Partition
		next[r.Partition] = r.Offset + 1
	}
	conf := config(b.k.Addrs, wider+"-flow", wider)
	f := start(t, t.Context(), "wider", conf)
	for partition, end := range next {
		f.committedTo(partition, end)
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	for _, d := range check(t, b.k, conf.Group, wider, conf.Group+"-snapshots") {
		t.Error(d)
	}
}

// keyed writes the numbers from..to-1 to where Kafka's partitioner puts their keys.
func keyed(t *testing.T, k *kafkatest.Cluster, topic string, from, to int) {
	t.Helper()
	cl := k.Client(t)
	for i := from; i < to; i++ {
		r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k0-%d", i%7), Value: []byte(strconv.Itoa(i))}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// Partitions are added under a running flow that commits nothing: it stops with an error before its client, whose
// metadata is old by minutes, has heard of them, so that the group has not even assigned them.
// Public case G8.
func TestKafkaPartitionsAddedWhileRunning(t *testing.T) {
	t.Parallel()
	b := newBench(t, holdfast.FencedState)
	produce(t, b.pr, b.input, 0, 3, 0, 10)
	f := start(t, t.Context(), "running", rarely(b.conf))
	await(f, 0, any1[stream.Restored])
	b.widen(b.input, 2)
	err := f.failure()
	e := named(t, err, holdfast.ErrInputChanged, "had 1 partitions and has 2")
	if strings.Contains(e.Hint, "Rebuild") {
		t.Errorf("it advises Rebuild: %s", e.Hint)
	}
	if n := len(each[stream.Assigned](f)); n != 1 {
		t.Errorf("the group has assigned %d partitions before the flow stopped, want 1", n)
	}
	if got := committed(t, b.k, b.group, b.input)[1]; got != 0 {
		t.Errorf("committed %d for the partition that was added", got)
	}
}

// Partitions are added under a running flow while records come for all keys. Of a key that has moved nothing is
// committed in the partition that it has moved to, whatever the guarantee.
// Public case G8.
func TestKafkaKeysThatMovedAreNotCommitted(t *testing.T) {
	t.Parallel()
	for _, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs, holdfast.Unfenced} {
		t.Run(fmt.Sprint(g), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, g)
			b.input = b.k.CreateTopic(t, b.input+"-two", 2, nil)
			b.conf.Inputs = []string{b.input}
			b.conf.Commit = holdfast.Commit{Interval: 10 * time.Millisecond}
			if g != holdfast.FencedOutputs {
				b.conf.Commit.Persist, b.conf.Commit.PersistCooldown = time.Millisecond, time.Millisecond
			}
			cl := b.k.Client(t, kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(100*time.Millisecond))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var writing sync.WaitGroup
			moved := make(chan struct{})
			before := kgo.StickyKeyPartitioner(nil).ForTopic(b.input)
			writing.Go(func() {
				seen := 0
				for i := 0; ctx.Err() == nil; i++ {
					r := &kgo.Record{Topic: b.input, Key: fmt.Appendf(nil, "k%d", i%50), Value: []byte(strconv.Itoa(i))}
					if cl.ProduceSync(ctx, r).FirstErr() != nil || r.Partition == 2 || before.Partition(r, 2) == int(r.Partition) {
						continue
					}
					if seen++; seen == 1 {
						close(moved)
					}
				}
			})
			defer writing.Wait()
			defer cancel()
			f := start(t, t.Context(), "running", b.conf)
			f.committedTo(0, 20)
			f.committedTo(1, 20)
			b.widen(b.input, 3)
			named(t, f.failure(), holdfast.ErrInputChanged, "had 2 partitions and has 3")
			<-moved
			cancel()
			writing.Wait()
			next := committed(t, b.k, b.group, b.input)
			for _, r := range readAll(t, b.k, b.input, kgo.ReadCommitted()) {
				if before.Partition(r, 2) != int(r.Partition) && r.Offset < next[r.Partition] {
					t.Fatalf("I2: key %s has moved to partition %d with offset %d, and %d is committed", r.Key, r.Partition, r.Offset, next[r.Partition])
				}
			}
			for _, r := range readAll(t, b.k, b.snapshots(), kgo.ReadCommitted()) {
				if !snapshot.Reserved(r.Key) && before.Partition(r, 2) != int(r.Partition) {
					t.Fatalf("I2: key %s has moved to partition %d, and has a state there", r.Key, r.Partition)
				}
			}
		})
	}
}
