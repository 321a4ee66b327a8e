package pipe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// patience bounds every wait for an event, far above what a healthy run takes.
const patience = 90 * time.Second

// lab is a cluster with what the tests share.
type lab struct {
	t      *testing.T
	ctx    context.Context
	kafka  kafka.Config
	client *kgo.Client
	admin  *kadm.Client
}

// embedded is a lab on the embedded broker, with topics given as name or name:partitions.
func embedded(t *testing.T, topics ...string) *lab {
	t.Helper()
	c := devbroker.Config{Listen: "127.0.0.1:0"}
	for _, spec := range topics {
		name, count, _ := strings.Cut(spec, ":")
		topic := devbroker.Topic{Name: name, Partitions: 1}
		if count != "" {
			if _, err := fmt.Sscan(count, &topic.Partitions); err != nil {
				t.Fatal(err)
			}
		}
		c.Topics = append(c.Topics, topic)
	}
	b, err := devbroker.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return newLab(t, b.Kafka())
}

func newLab(t *testing.T, k kafka.Config) *lab {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	client, err := k.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &lab{t: t, ctx: ctx, kafka: k, client: client, admin: kadm.NewClient(client)}
}

func (l *lab) produce(rs ...*kgo.Record) {
	l.t.Helper()
	if err := l.client.ProduceSync(l.ctx, rs...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// numbers writes n records with their number as key and value to partition 0 of a topic.
func (l *lab) numbers(topic string, n int) {
	l.t.Helper()
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}
	}
	l.produce(rs...)
}

// config is a pipe of group "copy" from "in" to "out" with short timings.
func (l *lab) config(f func(context.Context, stream.Record, *pipe.Out) error) pipe.Config {
	return pipe.Config{
		Kafka: l.kafka, Group: "copy", Inputs: []string{"in"}, Outputs: []string{"out"},
		Create: &holdfast.TopicConfig{}, Func: f,
		Commit: holdfast.Commit{Interval: 20 * time.Millisecond},
		Member: holdfast.Member{SessionTimeout: 6 * time.Second, RebalanceTimeout: 20 * time.Second, HeartbeatInterval: 300 * time.Millisecond},
	}
}

// running is a pipe that runs on a goroutine of the test.
type running struct {
	lab    *lab
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	mu        sync.Mutex
	committed map[stream.Partition]int64
	commits   []stream.Committed
	letters   []stream.DeadLettered
	wake      chan struct{}
}

func (l *lab) start(ctx context.Context, c pipe.Config) *running {
	l.t.Helper()
	r := &running{lab: l, done: make(chan struct{}), wake: make(chan struct{}), committed: map[stream.Partition]int64{}}
	c.Hooks = append(c.Hooks, holdfast.Hooks{
		Committed: func(e stream.Committed) {
			r.note(func() { r.committed[e.Partition] = e.Next; r.commits = append(r.commits, e) })
		},
		DeadLettered: func(e stream.DeadLettered) { r.note(func() { r.letters = append(r.letters, e) }) },
	})
	p, err := pipe.New(c)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, r.cancel = context.WithCancel(ctx)
	go func() {
		defer close(r.done)
		r.err = p.Run(ctx)
	}()
	l.t.Cleanup(func() { r.cancel(); <-r.done })
	return r
}

func (r *running) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.wake)
	r.wake = make(chan struct{})
}

// until waits until ok holds of what was noted.
func (r *running) until(what string, ok func() bool) {
	r.lab.t.Helper()
	for {
		r.mu.Lock()
		met, wake := ok(), r.wake
		r.mu.Unlock()
		if met {
			return
		}
		select {
		case <-wake:
		case <-r.done:
			r.lab.t.Fatalf("pipe ended before %s: %v", what, r.err)
		case <-r.lab.ctx.Done():
			r.lab.t.Fatalf("no %s", what)
		}
	}
}

// commits waits until the offset of in/partition is next.
func (r *running) untilCommitted(topic string, partition int32, next int64) {
	r.lab.t.Helper()
	p := stream.Partition{Topic: topic, Partition: partition}
	r.until(fmt.Sprintf("commit of %v at %d", p, next), func() bool { return r.committed[p] >= next })
}

// stop ends the pipe and returns what Run returned.
func (r *running) stop() error {
	r.cancel()
	return r.wait()
}

func (r *running) wait() error {
	r.lab.t.Helper()
	select {
	case <-r.done:
	case <-r.lab.ctx.Done():
		r.lab.t.Fatal("the pipe did not end")
	}
	return r.err
}

// read returns what a reader of the isolation finds in a topic.
func (l *lab) read(topic string, iso kgo.IsolationLevel) []*kgo.Record {
	l.t.Helper()
	ends, err := l.admin.ListEndOffsets(l.ctx, topic)
	if err != nil {
		l.t.Fatal(err)
	}
	var out []*kgo.Record
	ends.Each(func(o kadm.ListedOffset) {
		out = append(out, l.readPartition(topic, o.Partition, o.Offset, iso)...)
	})
	return out
}

func (l *lab) readPartition(topic string, partition int32, end int64, iso kgo.IsolationLevel) (out []*kgo.Record) {
	l.t.Helper()
	if end == 0 {
		return nil
	}
	cl, err := l.kafka.Client(kgo.FetchIsolationLevel(iso), kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {partition: kgo.NewOffset().AtStart()},
	}))
	if err != nil {
		l.t.Fatal(err)
	}
	defer cl.Close()
	for at := int64(0); at < end; {
		fs := cl.PollFetches(l.ctx)
		if err := fs.Err(); err != nil {
			l.t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
		})
	}
	return out
}

func (l *lab) committed(group, topic string, partition int32) kadm.OffsetResponse {
	l.t.Helper()
	offsets, err := l.admin.FetchOffsets(l.ctx, group)
	if err != nil {
		l.t.Fatal(err)
	}
	o, ok := offsets.Lookup(topic, partition)
	if !ok {
		o.At = -1
	}
	return o
}

func values(rs []*kgo.Record) string {
	var b strings.Builder
	for _, r := range rs {
		fmt.Fprintf(&b, "%s ", r.Value)
	}
	return strings.TrimSpace(b.String())
}

var errBad = errors.New("bad record")

// reset commits an offset as a person does with kafka-consumer-groups.sh.
func (l *lab) reset(group, topic string, next int64) {
	l.t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, next, -1)
	if err := l.admin.CommitAllOffsets(l.ctx, group, offsets); err != nil {
		l.t.Fatal(err)
	}
}
