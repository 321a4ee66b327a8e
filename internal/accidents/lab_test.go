package accidents

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// patience bounds every wait for an event: it is far above what a healthy run takes, so that only a
// hang meets it.
const patience = 90 * time.Second

// nightly skips what takes minutes, unless HOLDFAST_NIGHTLY is 1.
func nightly(t *testing.T) {
	t.Helper()
	if os.Getenv("HOLDFAST_NIGHTLY") != "1" {
		t.Skip("takes minutes: set HOLDFAST_NIGHTLY=1")
	}
}

func TestMain(m *testing.M) {
	// The tests wait for brokers most of the time. -parallel on the command line still wins.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	kafkatest.Main(m, trial.Child())
}

// kind is what has the accident.
type kind string

const (
	states  kind = "FencedState"
	outputs kind = "FencedOutputs"
	copies  kind = "pipe"
	// plain claims less: the committed offset is never ahead of the snapshots (I1), and a state is that of
	// its records, each once (I2), while no stale owner writes. Nothing fences one, so that only the
	// accidents without one are its own: kinds are those with a fence.
	plain kind = "Unfenced"
)

var (
	kinds     = []kind{states, outputs, copies}
	everyKind = []kind{states, outputs, copies, plain}
)

// tally is the state of the flows. It depends on each record and on their order, so that a lost,
// repeated or reordered one shows.
type tally struct {
	N    int
	Hash uint64
	Last int64
}

func (s tally) with(value, offset int64) tally {
	return tally{N: s.N + 1, Hash: (s.Hash ^ uint64(value+1)) * 1099511628211, Last: offset}
}

// fold adds numbers to a key's tally. "delete" deletes the key, and "persist" after a number asks for a
// snapshot at once. What it emits tells the step.
func fold(output string) func(context.Context, *holdfast.Key[tally], stream.Record) error {
	return func(_ context.Context, k *holdfast.Key[tally], r stream.Record) error {
		text, persist := strings.CutSuffix(string(r.Value), " persist")
		if persist {
			k.Persist()
		}
		if text == "delete" {
			k.Delete()
			k.Emit(stream.Message{Topic: output, Key: r.Key, Value: fmt.Appendf(nil, "%d deleted", r.Offset)})
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		s, _ := k.State()
		s = s.with(n, r.Offset)
		k.Set(s)
		k.Emit(stream.Message{Topic: output, Key: r.Key, Value: fmt.Appendf(nil, "%d: %d after %d, %x", r.Offset, n, s.N, s.Hash)})
		return nil
	}
}

// lab is one component with topics of its own, and what a test does to them.
type lab struct {
	t          *testing.T
	k          *kafkatest.Cluster
	kind       kind
	admin      *kadm.Client
	pr         *kgo.Client
	partitions int32
	input      string
	output     string
	group      string
	policy     holdfast.Disagreement
	position   holdfast.Position // where it begins anew
	commit     holdfast.Commit
	member     holdfast.Member
	stall      time.Duration
	topic      map[string]string // configuration of the snapshot or progress topic
	// before, if set, is called with each record before it is folded or copied, by the members that are
	// started from then on.
	before func(context.Context, stream.Record) error
	logger *slog.Logger
}

func newLab(t *testing.T, k *kafkatest.Cluster, what kind, partitions int32) *lab {
	t.Helper()
	l := &lab{t: t, k: k, kind: what, partitions: partitions, admin: kadm.NewClient(k.Client(t)), pr: producer(t, k)}
	l.input = k.CreateTopic(t, kafkatest.UniqueName("in"), partitions, nil)
	l.output = k.CreateTopic(t, l.input+"-out", partitions, nil)
	l.group = l.input + "-" + string(what)
	l.commit = holdfast.Commit{Interval: 50 * time.Millisecond}
	if what == states || what == plain {
		l.commit.Persist, l.commit.PersistCooldown = 20*time.Millisecond, time.Millisecond
	}
	l.member = holdfast.Member{SessionTimeout: 6 * time.Second, RebalanceTimeout: 20 * time.Second, HeartbeatInterval: 300 * time.Millisecond}
	l.logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	return l
}

// each runs a case for every kind, side by side, on one broker.
func each(t *testing.T, partitions int32, test func(t *testing.T, l *lab)) {
	t.Helper()
	t.Parallel()
	for _, what := range kinds {
		t.Run(string(what), func(t *testing.T) {
			t.Parallel()
			test(t, newLab(t, kafkatest.Start(t), what, partitions))
		})
	}
}

// producer returns a client that writes to the partitions that records name.
func producer(t *testing.T, k *kafkatest.Cluster) *kgo.Client {
	t.Helper()
	return k.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
}

// progress is the topic with the component's progress records, a flow's snapshots among them.
func (l *lab) progress() string {
	if l.kind == copies {
		return l.group + "-progress"
	}
	return l.group + "-snapshots"
}

// id is the transactional id of an input partition.
func (l *lab) id(partition int32) string {
	return fence.TransactionalID(l.group, l.progress(), partition)
}

func (l *lab) flow(opts ...kgo.Opt) holdfast.Config[tally] {
	inner, before := fold(l.output), l.before
	c := holdfast.Config[tally]{
		Kafka: l.kafka(opts), Group: l.group, Inputs: []string{l.input}, Outputs: []string{l.output},
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{Configs: l.topic}}, Codec: codec.JSON[tally](),
		Commit: l.commit, Member: l.member, Logger: l.logger,
		Start: holdfast.Start{New: l.position, Disagreement: l.policy}, Restore: holdfast.Restore{StallTimeout: l.stall},
		Fold: func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
			if before != nil {
				if err := before(ctx, r); err != nil {
					return err
				}
			}
			return inner(ctx, k, r)
		},
	}
	switch l.kind {
	case outputs:
		c.Guarantee = holdfast.FencedOutputs
	case plain:
		c.Guarantee = holdfast.Unfenced
	}
	return c
}

func (l *lab) pipe(opts ...kgo.Opt) pipe.Config {
	before := l.before
	return pipe.Config{
		Kafka: l.kafka(opts), Group: l.group, Inputs: []string{l.input}, Outputs: []string{l.output},
		Create: &holdfast.TopicConfig{Configs: l.topic}, Commit: l.commit, Member: l.member, Logger: l.logger,
		Start: holdfast.Start{New: l.position, Disagreement: l.policy}, Restore: holdfast.Restore{StallTimeout: l.stall},
		Func: func(ctx context.Context, r stream.Record, out *pipe.Out) error {
			if before != nil {
				if err := before(ctx, r); err != nil {
					return err
				}
			}
			out.Send(stream.Message{Topic: l.output, Key: r.Key, Value: fmt.Appendf(nil, "%d: %s", r.Offset, r.Value)})
			return nil
		},
	}
}

func (l *lab) kafka(opts []kgo.Opt) kafka.Config {
	return kafka.Config{Brokers: l.k.Addrs, Opts: append([]kgo.Opt{kgo.MetadataMinAge(100 * time.Millisecond), kgo.MetadataMaxAge(time.Second)}, opts...)}
}

// produce writes the numbers from..to-1 to a partition, spread over three keys.
func (l *lab) produce(partition int32, from, to int) {
	l.t.Helper()
	var rs []*kgo.Record
	for i := from; i < to; i++ {
		rs = append(rs, l.record(partition, fmt.Sprintf("k%d-%d", partition, i%3), strconv.Itoa(i)))
	}
	l.write(rs...)
}

func (l *lab) record(partition int32, key, value string) *kgo.Record {
	return &kgo.Record{Topic: l.input, Partition: partition, Key: []byte(key), Value: []byte(value)}
}

func (l *lab) write(rs ...*kgo.Record) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	if err := l.pr.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// ten has the component take ten records of each partition, and stop.
func (l *lab) ten(opts ...kgo.Opt) *run {
	l.t.Helper()
	for p := range l.partitions {
		l.produce(p, 0, 10)
	}
	r := l.start("before", opts...)
	for p := range l.partitions {
		r.committedTo(p, 10)
	}
	r.end()
	return r
}

// finish starts the component, has it take what there is up to next of partition 0, and stops it.
func (l *lab) finish(start, next int64) *run {
	l.t.Helper()
	r := l.start("after")
	if e := await(r, 0, any1[stream.Restored]); e.Start != start {
		l.t.Errorf("it goes on at %d, want %d", e.Start, start)
	}
	r.committedTo(0, next)
	r.end()
	return r
}

// again starts the component once more, which goes on where it was and has nothing to do.
func (l *lab) again(start int64) {
	l.t.Helper()
	r := l.start("again")
	if e := await(r, 0, any1[stream.Restored]); e.Start != start {
		l.t.Errorf("the start after it is at %d, want %d", e.Start, start)
	}
	r.end()
}

// committed returns the group's committed offset of a partition, -1 if there is none.
func (l *lab) committed(partition int32) int64 {
	l.t.Helper()
	next := int64(-1)
	l.retried("fetch the offset", func(ctx context.Context) error {
		os, err := l.admin.FetchOffsets(ctx, l.group)
		if o, ok := os.Lookup(l.input, partition); ok {
			next = o.At
		}
		return err
	})
	return next
}

// retried repeats an administrator's request while it meets what passes: a broker that is away, a
// coordinator that is moving, or one that has not heard of a topic yet.
func (l *lab) retried(what string, f func(context.Context) error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		if code := (*kerr.Error)(nil); errors.As(err, &code) && !kerr.IsRetriable(err) && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.UnknownTopicID) && !errors.Is(err, kerr.TopicAlreadyExists) {
			l.t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			l.t.Fatalf("%s: %v", what, err)
		}
	}
}

// reset moves the committed offset of partition 0, as an operator does it with Kafka's tool.
func (l *lab) reset(next int64) {
	l.t.Helper()
	l.retried("reset the offset", func(ctx context.Context) error { return l.commitAs(ctx, next) })
}

func (l *lab) commitAs(ctx context.Context, next int64) error {
	os := kadm.Offsets{}
	os.AddOffset(l.input, 0, next, -1)
	rs, err := l.admin.CommitOffsets(ctx, l.group, os)
	if err == nil {
		err = rs.Error()
	}
	return err
}

// forget deletes the committed offset of partition 0, which is what its expiry does.
func (l *lab) forget() {
	l.t.Helper()
	l.retried("delete the offset", l.deleteOffset)
}

func (l *lab) deleteOffset(ctx context.Context) error {
	s := kadm.TopicsSet{}
	s.Add(l.input, 0)
	rs, err := l.admin.DeleteOffsets(ctx, l.group, s)
	if err == nil {
		err = rs.Error()
	}
	return err
}

// recreate makes a topic anew.
func (l *lab) recreate(topic string, configs map[string]string) {
	l.t.Helper()
	l.remove(topic)
	l.k.CreateTopic(l.t, topic, l.partitions, configs)
}

// remove deletes a topic.
func (l *lab) remove(topic string) {
	l.t.Helper()
	if _, err := l.admin.DeleteTopic(l.t.Context(), topic); err != nil {
		l.t.Fatal(err)
	}
	l.retried("await the topic's end", func(ctx context.Context) error {
		ts, err := l.admin.ListTopics(ctx, topic)
		if err == nil && ts[topic].Err == nil {
			err = kerr.TopicAlreadyExists
		}
		return err
	})
}

// widen gives a topic more partitions.
func (l *lab) widen(topic string, partitions int) {
	l.t.Helper()
	rs, err := l.admin.UpdatePartitions(l.t.Context(), partitions, topic)
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.retried("await the partitions", func(ctx context.Context) error {
		ts, err := l.admin.ListTopics(ctx, topic)
		if err == nil && len(ts[topic].Partitions) != partitions {
			err = kerr.UnknownTopicOrPartition
		}
		return err
	})
}

// trim deletes the records of partition 0 of a topic that are below an offset, as retention does.
func (l *lab) trim(topic string, below int64) {
	l.t.Helper()
	os := kadm.Offsets{}
	os.AddOffset(topic, 0, below, -1)
	l.retried("delete records", func(ctx context.Context) error {
		rs, err := l.admin.DeleteRecords(ctx, os)
		if err == nil {
			err = rs.Error()
		}
		if errors.Is(err, kerr.PolicyViolation) { // the leader has not heard yet that the topic's policy is delete
			err = errors.New(err.Error())
		}
		return err
	})
}

// model is what the checker applies the input to.
func (l *lab) model() holdfasttest.Model {
	if l.kind == copies {
		return holdfasttest.Pipe(l.pipe())
	}
	return holdfasttest.Flow(l.flow())
}

// newShared is a lab on the broker that the tests share.
func newShared(t *testing.T, what kind, partitions int32) *lab {
	t.Helper()
	return newLab(t, kafkatest.Start(t), what, partitions)
}

// oldTransactions reports whether the brokers know transaction.version 1 at most.
func oldTransactions() bool { return strings.HasPrefix(kafkatest.Version(), "3.") }
