package fieldcases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	input     = "in"
	output    = "out"
	group     = "flow"
	snapshots = group + "-snapshots"

	// patience bounds every wait for an event: it is far above what a healthy run takes, so that only a
	// hang meets it.
	patience = time.Minute
)

// tally is the state of the flows. It depends on each record and on their order, so that a lost,
// repeated or reordered one shows.
type tally struct {
	N    int
	Hash uint64
}

func (s tally) with(value int64) tally {
	return tally{N: s.N + 1, Hash: (s.Hash ^ uint64(value+1)) * 1099511628211}
}

type step = func(context.Context, *holdfast.Key[tally], stream.Record) error

// fold adds a number to its key's tally, and emits what comes of it.
var fold = foldTo(output)

func foldTo(topic string) step {
	return func(_ context.Context, k *holdfast.Key[tally], r stream.Record) error {
		n, err := strconv.ParseInt(string(r.Value), 10, 64)
		if err != nil {
			return err
		}
		s, _ := k.State()
		s = s.with(n)
		k.Set(s)
		k.Emit(stream.Message{Topic: topic, Key: r.Key, Value: fmt.Appendf(nil, "%d: %d, %x", r.Offset, s.N, s.Hash)})
		return nil
	}
}

// lab is an embedded broker with an input and an output, and what a test does to them.
type lab struct {
	t          *testing.T
	cluster    *kfake.Cluster
	k          kafka.Config
	client     *kgo.Client
	admin      *kadm.Client
	partitions int32
	guarantee  holdfast.Guarantee
	tune       func(*holdfast.Config[tally]) // what a test changes in the configuration; may be nil
	resets     map[kmsg.Key]int              // that each member begins with, see link.reset; may be nil
	written    map[int32]int                 // numbers written to each partition
	runs       []*run
}

func newLab(t *testing.T, partitions int32, opts ...kfake.Opt) *lab {
	t.Helper()
	opts = append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Millisecond), kfake.SeedTopics(partitions, input, output),
	}, opts...)
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := &lab{t: t, cluster: c, partitions: partitions, written: map[int32]int{}}
	l.k = kafka.Config{Brokers: c.ListenAddrs(), Opts: []kgo.Opt{kgo.MetadataMinAge(20 * time.Millisecond)}}
	if l.client, err = l.k.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.client.Close)
	l.admin = kadm.NewClient(l.client)
	return l
}

// write writes the next n numbers to a partition, spread over three keys.
func (l *lab) write(partition int32, n int) {
	l.t.Helper()
	var rs []*kgo.Record
	for range n {
		i := l.written[partition]
		l.written[partition]++
		rs = append(rs, &kgo.Record{Topic: input, Partition: partition, Key: fmt.Appendf(nil, "k%d-%d", partition, i%3), Value: strconv.AppendInt(nil, int64(i), 10)})
	}
	l.send(rs...)
}

// writeAll writes n numbers to each partition.
func (l *lab) writeAll(n int) {
	l.t.Helper()
	for p := range l.partitions {
		l.write(p, n)
	}
}

func (l *lab) send(rs ...*kgo.Record) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	l.must(l.client.ProduceSync(ctx, rs...).FirstErr())
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// config is a flow with short timings, that commits at once.
func (l *lab) config() holdfast.Config[tally] {
	c := holdfast.Config[tally]{
		Kafka: l.k, Group: group, Inputs: []string{input}, Outputs: []string{output}, Codec: codec.JSON[tally](), Fold: fold,
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{Configs: map[string]string{"min.compaction.lag.ms": "604800000"}}},
		Member:    holdfast.Member{SessionTimeout: 2 * time.Second, HeartbeatInterval: 50 * time.Millisecond, RebalanceTimeout: 10 * time.Second},
		Commit:    holdfast.Commit{Interval: 5 * time.Millisecond}, Guarantee: l.guarantee,
		Logger: slog.New(slog.NewTextHandler(l.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if l.guarantee != holdfast.FencedOutputs {
		c.Commit.Persist, c.Commit.PersistCooldown = 2*time.Millisecond, time.Millisecond
	}
	if l.tune != nil {
		l.tune(&c)
	}
	return c
}

// finished waits until everything that was written is committed, stops all members, of which none may
// have ended by itself, and has the checker judge what is left.
func (l *lab) finished() {
	l.t.Helper()
	l.reach()
	for _, r := range l.runs {
		l.must(r.end())
	}
	l.verify()
}

// verify has the checker judge what ended members have left.
func (l *lab) verify() {
	l.t.Helper()
	holdfasttest.Verify(l.t, holdfasttest.Flow(l.config()), l.members()...)
}

func (l *lab) members() (ms []holdfasttest.Member) {
	for _, r := range l.runs {
		ms = append(ms, r.rec.Member())
	}
	return ms
}

// before has a member take n numbers of each partition, and end.
func (l *lab) before(n int) {
	l.t.Helper()
	l.writeAll(n)
	r := l.start("before", l.config())
	l.reach()
	l.must(r.end())
}

// topicID is how requests name a topic.
func (l *lab) topicID(topic string) [16]byte {
	l.t.Helper()
	info := l.cluster.TopicInfo(topic)
	if info == nil {
		l.t.Fatalf("there is no topic %s", topic)
	}
	return info.TopicID
}

// hold has requests with a key wait, those that is asks for. It returns a channel that has an element for
// each that came, and what lets them go.
func (l *lab) hold(key kmsg.Key, is func(kmsg.Request) bool) (came <-chan struct{}, release func()) {
	held, open := make(chan struct{}, 1000), make(chan struct{})
	release = sync.OnceFunc(func() { close(open) })
	l.t.Cleanup(release)
	l.cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		select {
		case <-open:
			return nil, nil, false
		default:
		}
		if is(req) {
			held <- struct{}{}
			l.cluster.SleepControl(func() { <-open })
		}
		return nil, nil, false
	})
	return held, release
}

// reads reports whether a request fetches from a topic.
func (l *lab) reads(topic string) func(kmsg.Request) bool {
	id := l.topicID(topic)
	return func(req kmsg.Request) bool {
		for _, one := range req.(*kmsg.FetchRequest).Topics {
			if one.TopicID == id || one.Topic == topic {
				return true
			}
		}
		return false
	}
}

// restores reports whether a request fetches from the snapshots for a restore. A start looks at the newest progress
// record before it joins the group, and asks for less at once.
func (l *lab) restores() func(kmsg.Request) bool {
	reads := l.reads(snapshots)
	return func(req kmsg.Request) bool { return reads(req) && req.(*kmsg.FetchRequest).MaxBytes >= 4<<20 }
}

// has reports whether the group is stable with n members.
func (l *lab) has(n int) func() bool {
	return func() bool {
		info := l.cluster.GroupInfo(group)
		return info != nil && len(info.Members) == n && info.State == "Stable"
	}
}

// reach waits until everything that was written is committed, whoever does it.
func (l *lab) reach() {
	l.t.Helper()
	l.await("everything is committed", func() bool {
		for p, n := range l.written {
			if l.committed(p) < int64(n) {
				return false
			}
		}
		return true
	})
}

// committed returns the group's offset of a partition, -1 if there is none.
func (l *lab) committed(partition int32) int64 {
	if info := l.cluster.GroupInfo(group); info != nil {
		if c, ok := info.Commits[input][partition]; ok {
			return c.Offset
		}
	}
	return -1
}

// await waits for what the broker tells.
func (l *lab) await(what string, is func() bool) {
	l.t.Helper()
	tick, limit := time.NewTicker(5*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			l.t.Fatalf("it does not come about that %s", what)
		}
	}
}

// observe counts the requests with a key that the broker gets, and may look at them.
func (l *lab) observe(look func(kmsg.Request) bool, keys ...kmsg.Key) *kfake.FaultHandle {
	return l.cluster.Fault(kfake.Fault{Keys: keys, Count: -1, Observe: true, When: look})
}

// wait waits until a fault or an observer has met n requests.
func (l *lab) wait(h *kfake.FaultHandle, n int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	if err := h.Wait(ctx, n); err != nil {
		l.t.Fatalf("%d of %d requests came: %v", h.Hits(), n, err)
	}
}

// pulse is the longest time in which the broker has got none of the requests by which members tell that they
// live. It is safe for concurrent use.
type pulse struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

// pulse begins to take the pulse of the one member that runs.
func (l *lab) pulse() *pulse {
	p := &pulse{}
	l.observe(func(kmsg.Request) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		at := time.Now()
		if !p.last.IsZero() {
			p.longest = max(p.longest, at.Sub(p.last))
		}
		p.last = at
		return true
	}, kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup)
	return p
}

// excuses reports whether the machine was too busy to let a member send anything for a session, so that it
// has lost its partitions without a fault of its own. The broker looks at its clock a moment before or after
// the pulse is taken: a tenth is left for that.
func (p *pulse) excuses(r *run, session time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(all[lost](r)) > 0 && p.longest >= session*9/10
}

// wantStop waits for the end of a member that has to end by itself, with an error.
func wantStop(t *testing.T, r *run, want error) *stream.Error {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatalf("the member does not end, want %v", want)
	}
	var e *stream.Error
	if !errors.Is(r.err, want) || !errors.As(r.err, &e) || e.Hint == "" {
		t.Fatalf("the member ended with %v, want %v and what to do", r.err, want)
	}
	return e
}
