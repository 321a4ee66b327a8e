package limits

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// children are what tests run in processes of their own.
var children []kafkatest.Child

func TestMain(m *testing.M) { kafkatest.Main(m, children...) }

// patience bounds every wait for an event: it is far above what a healthy run takes, so that only a hang
// meets it.
const patience = 90 * time.Second

// The three that have a commit of their own.
const (
	fencedState   = "FencedState"
	fencedOutputs = "FencedOutputs"
	isPipe        = "pipe"
)

var kinds = []string{fencedState, fencedOutputs, isPipe}

// tally is the state of a key: what it depends on is each record and their order.
type tally struct {
	N     int
	Chain uint64
}

// bench is one flow or pipe with one input partition, run one member after another.
type bench struct {
	t             *testing.T
	kind          string
	kafka         kafka.Config // the component's
	full          kafka.Config // the test's own, which may do everything
	cl            *kgo.Client  // the test's: it writes to the partitions that records name
	admin         *kadm.Client
	group         string
	input, output string
	commit        time.Duration
	pad           int                // bytes that each output has more, which do not compress
	timeout       time.Duration      // of transactions; 0: the default
	codec         codec.Codec[tally] // of states; nil: JSON
	hooks         []holdfast.Hooks
	members       []holdfasttest.Member
}

// newBench makes the topics on a cluster that admin reaches without a limit.
func newBench(t *testing.T, k kafka.Config, kind string) *bench {
	t.Helper()
	b := &bench{t: t, kind: kind, kafka: k, full: k, group: kafkatest.UniqueName("limits"), commit: 20 * time.Millisecond}
	b.input, b.output = b.group+"-in", b.group+"-out"
	var err error
	if b.cl, err = k.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProducerBatchMaxBytes(1<<30-1), kgo.BrokerMaxWriteBytes(1<<30)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.cl.Close)
	b.admin = kadm.NewClient(b.cl)
	b.create(b.input, nil)
	b.create(b.output, nil)
	b.create(b.progress(), map[string]*string{"cleanup.policy": kadm.StringPtr("compact"), "min.compaction.lag.ms": kadm.StringPtr("86400000")})
	return b
}

func (b *bench) create(topic string, settings map[string]*string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	if _, err := b.admin.CreateTopic(ctx, 1, 1, settings, topic); err != nil {
		b.t.Fatal(err)
	}
	// A broker learns of a topic some milliseconds after the controller has answered its creation.
	for {
		switch f, err := wire.TopicFacts(ctx, b.cl, topic); {
		case err == nil && f.Exists && f.Leaderless == 0:
			return
		case ctx.Err() != nil, err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition):
			b.t.Fatalf("topic %s is not there: %v", topic, err)
		}
	}
}

func (b *bench) progress() string {
	if b.kind == isPipe {
		return b.group + "-progress"
	}
	return b.group + "-snapshots"
}

// send writes n records over three keys, and waits until the broker has them.
func (b *bench) send(n int) {
	b.t.Helper()
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Topic: b.input, Key: fmt.Appendf(nil, "k%d", i%3), Value: fmt.Appendf(nil, "%d", i)})
	}
	b.write(rs...)
}

// write writes records to what they name, each in a batch of its own.
func (b *bench) write(rs ...*kgo.Record) {
	b.t.Helper()
	for _, r := range rs {
		if err := b.cl.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) flow() holdfast.Config[tally] {
	c := holdfast.Config[tally]{
		Kafka: b.kafka, Group: b.group, Inputs: []string{b.input}, Outputs: []string{b.output}, Codec: codec.JSON[tally](),
		Fold: func(_ context.Context, key *holdfast.Key[tally], r stream.Record) error {
			s, _ := key.State()
			s = tally{s.N + 1, (s.Chain ^ uint64(r.Offset+1)) * 1099511628211}
			key.Set(s)
			key.Emit(stream.Message{Topic: b.output, Key: r.Key, Value: b.padded(r.Offset, fmt.Sprintf("%d: %+v", r.Offset, s))})
			return nil
		},
		Member: b.member(), Hooks: b.hooks, Commit: holdfast.Commit{Interval: b.commit},
	}
	if b.codec != nil {
		c.Codec = b.codec
	}
	if b.kind == fencedOutputs {
		c.Guarantee = holdfast.FencedOutputs
	} else {
		c.Commit.Persist = b.commit
	}
	return c
}

func (b *bench) pipe() pipe.Config {
	return pipe.Config{
		Kafka: b.kafka, Group: b.group, Inputs: []string{b.input}, Outputs: []string{b.output},
		Func: func(_ context.Context, r stream.Record, out *pipe.Out) error {
			out.Send(stream.Message{Topic: b.output, Key: r.Key, Value: b.padded(r.Offset, fmt.Sprint(r.Offset))})
			return nil
		},
		Member: b.member(), Hooks: b.hooks, Commit: holdfast.Commit{Interval: b.commit},
	}
}

// padded is an output of the record at an offset.
func (b *bench) padded(offset int64, text string) []byte {
	random := rand.New(rand.NewPCG(uint64(offset), 0))
	out := append([]byte(text), ' ')
	for range b.pad {
		out = append(out, byte(random.Uint32()))
	}
	return out
}

func (b *bench) member() holdfast.Member {
	return holdfast.Member{SessionTimeout: 6 * time.Second, RebalanceTimeout: 20 * time.Second, HeartbeatInterval: 300 * time.Millisecond, TransactionTimeout: b.timeout}
}

// model is what the checker folds again.
func (b *bench) model() holdfasttest.Model {
	if b.kind == isPipe {
		c := b.pipe()
		c.Kafka = b.full
		return holdfasttest.Pipe(c)
	}
	c := b.flow()
	c.Kafka = b.full
	return holdfasttest.Flow(c)
}

// running is a member that runs until it is stopped, or fails.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	mu   sync.Mutex
	next int64 // committed
	wake chan struct{}
}

// start runs a member until stop is called or the test ends.
func (b *bench) start() *running {
	b.t.Helper()
	r := &running{t: b.t, done: make(chan struct{}), wake: make(chan struct{})}
	rec := holdfasttest.NewRecorder(fmt.Sprintf("member %d", len(b.members)), nil)
	committed := holdfast.Hooks{Committed: func(e stream.Committed) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.next = max(r.next, e.Next)
		close(r.wake)
		r.wake = make(chan struct{})
	}}
	var run func(context.Context) error
	if b.kind == isPipe {
		c := b.pipe()
		c.Hooks = append(append(c.Hooks, committed), rec.Hooks())
		p, err := pipe.New(c)
		if err != nil {
			b.t.Fatal(err)
		}
		run = p.Run
	} else {
		c := b.flow()
		c.Hooks = append(c.Hooks, committed)
		f, err := holdfast.New(holdfasttest.Watch(rec, c))
		if err != nil {
			b.t.Fatal(err)
		}
		run = f.Run
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(b.t.Context())
	b.members = append(b.members, rec.Member())
	at := len(b.members) - 1
	go func() {
		defer close(r.done)
		r.err = run(ctx)
		rec.Stopped(r.err)
		b.members[at] = rec.Member()
	}()
	b.t.Cleanup(func() { r.cancel(); <-r.done })
	return r
}

// stop ends the member and returns what Run returned.
func (r *running) stop() error {
	r.cancel()
	<-r.done
	return r.err
}

// failure waits until Run has ended by itself, and returns its error.
func (r *running) failure() error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatalf("the member has not ended within %v", patience)
	}
	if r.err == nil {
		r.t.Fatal("the member has ended without an error")
	}
	return r.err
}

// refusal waits until Run has ended by itself, and returns its error. A member that goes on instead, and
// commits next, has believed what it was to refuse.
func (r *running) refusal(next int64) error {
	r.t.Helper()
	for {
		r.mu.Lock()
		at, wake := r.next, r.wake
		r.mu.Unlock()
		if at >= next {
			r.t.Fatalf("I2: the member has gone on, and committed %d", at)
		}
		select {
		case <-wake:
		case <-r.done:
			return r.failure()
		case <-time.After(patience):
			r.t.Fatalf("the member has not ended within %v", patience)
		}
	}
}

// committed waits until the member has committed next.
func (r *running) committed(next int64) {
	r.t.Helper()
	limit := time.After(patience)
	for {
		r.mu.Lock()
		at, wake := r.next, r.wake
		r.mu.Unlock()
		if at >= next {
			return
		}
		select {
		case <-wake:
		case <-r.done:
			r.t.Fatalf("the member ended with %v at offset %d, and %d was awaited", r.err, at, next)
		case <-limit:
			r.t.Fatalf("offset %d was not committed within %v: %d", next, patience, at)
		}
	}
}

// finish runs a member up to the input's offset next and has the checker judge everything that was left.
func (b *bench) finish(next int64) {
	b.t.Helper()
	r := b.start()
	r.committed(next)
	if err := r.stop(); err != nil {
		b.t.Fatal(err)
	}
	holdfasttest.Verify(b.t, b.model(), b.members...)
}

// offset is the group's committed one; -1: none.
func (b *bench) offset() int64 {
	b.t.Helper()
	os, err := b.admin.FetchOffsetsForTopics(b.t.Context(), b.group, b.input)
	if err != nil {
		b.t.Fatal(err)
	}
	o, _ := os.Lookup(b.input, 0)
	return o.At
}

// end is the next offset of partition 0 of a topic.
func (b *bench) end(topic string) int64 {
	b.t.Helper()
	os, err := b.admin.ListEndOffsets(b.t.Context(), topic)
	if err != nil {
		b.t.Fatal(err)
	}
	o, _ := os.Lookup(topic, 0)
	return o.Offset
}

// located fails the test unless err wraps want and says where it happened and what to do, with the words.
func located(t *testing.T, err, want error, topic string, offset int64, words ...string) {
	t.Helper()
	var where *stream.Error
	if !errors.Is(err, want) || !errors.As(err, &where) || where.Topic != topic || where.Offset != offset || offset >= 0 && where.Partition != 0 || where.Hint == "" {
		t.Errorf("error %v, want %v at %s/0 offset %d with a next step", err, want, topic, offset)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}
