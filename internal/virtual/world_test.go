//go:build synctests

package virtual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	group   = "virtual"
	input   = "payments"
	output  = "balances"
	rejects = "rejects"
)

// tally is the state of the fold: a lost, repeated or reordered record shows in it. It is held by reference,
// and changed in place.
type tally struct {
	N    int
	Sum  int64
	Hash uint64
}

func (s *tally) add(v int64) {
	s.N, s.Sum, s.Hash = s.N+1, s.Sum+v, (s.Hash^uint64(v+1))*1099511628211
}

func clone(s *tally) *tally {
	out := *s
	return &out
}

// fold adds a number, deletes the key on "del", and fails on anything else, after it has changed the state
// in place. A number before "now" asks for a persist.
func fold(_ context.Context, k *holdfast.Key[*tally], r stream.Record) error {
	text, now := strings.CutSuffix(string(r.Value), "now")
	if text == "del" {
		k.Delete()
		k.Emit(stream.Message{Topic: output, Key: r.Key, Value: fmt.Appendf(nil, "deleted at %d", r.Offset)})
		return nil
	}
	s, ok := k.State()
	if !ok {
		s = &tally{}
		k.Set(s)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if s.add(n); err != nil {
		return err
	}
	k.Emit(stream.Message{Topic: output, Key: r.Key, Value: fmt.Appendf(nil, "%d after %d at %d", s.Sum, s.N, r.Offset)})
	if now {
		k.Persist()
	}
	return nil
}

// copyRecord is the function of the pipe.
func copyRecord(_ context.Context, r stream.Record, out *pipe.Out) error {
	if string(r.Value) == "del" {
		return nil
	}
	if _, err := strconv.ParseInt(strings.TrimSuffix(string(r.Value), "now"), 10, 64); err != nil {
		return err
	}
	out.Send(stream.Message{Topic: output, Key: r.Key, Value: fmt.Appendf(nil, "%s at %d/%d", r.Value, r.Partition, r.Offset)})
	return nil
}

// setting says what a world is made of. The zero value is a flow under FencedState on one broker and
// one partition.
type setting struct {
	Pipe        bool
	Guarantee   holdfast.Guarantee
	NoClone     bool // of a flow
	Partitions  int32
	Concurrency int // of a pipe
	Brokers     int
	OldBrokers  bool // transaction.version 1
	Delay       time.Duration
	Member      holdfast.Member
	Commit      holdfast.Commit
	BrokerConf  map[string]string
	Slow        map[kmsg.Key]time.Duration // how long answers to some requests take
}

// world is one cluster with one group, in one bubble.
type world struct {
	t       *testing.T
	s       setting
	seed    uint64
	began   time.Time
	ctx     context.Context // of the members: it may carry rules that are switched off
	net     *kfake.VirtualNetwork
	cluster *kfake.Cluster
	ports   []int
	client  *kgo.Client // nobody's but the test's: its way has no faults
	states  *states
	members []*member
	hooks   holdfast.Hooks // of the members that are started from here on, beside those that record
	// expected is in the text of the violations that the test itself has made. "": none.
	expected string
	ends     []int64 // by partition of the input: behind the last committed record
}

// newWorld starts the brokers and makes the topics. It is closed at the end of the test.
func newWorld(t *testing.T, s setting, seed uint64, seen *states) *world {
	t.Helper()
	s.Partitions, s.Brokers = cmp.Or(s.Partitions, 1), cmp.Or(s.Brokers, 1)
	w := &world{t: t, s: s, seed: seed, began: time.Now(), ctx: t.Context(), net: &kfake.VirtualNetwork{}, states: seen, ends: make([]int64, s.Partitions)}
	for i := range s.Brokers {
		w.ports = append(w.ports, 9092+i)
	}
	opts := []kfake.Opt{
		kfake.Ports(w.ports...), kfake.ListenFn(w.net.Listen), kfake.GroupMinSessionTimeout(time.Millisecond),
		kfake.SeedTopics(s.Partitions, input, output, rejects), kfake.BrokerConfigs(s.BrokerConf),
		// Its compaction moves the start of the log, and the checker would miss what was compacted away.
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "2592000000"}),
	}
	if s.OldBrokers {
		opts = append(opts, kfake.MaxVersions(kversion.V3_9_0()))
	}
	var err error
	if w.cluster, err = kfake.NewCluster(opts...); err != nil {
		t.Fatal(err)
	}
	w.client, err = w.kafka(w.net.DialContext).Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// close ends the world. Members have ended before: a bubble ends when all of its goroutines have.
func (w *world) close() {
	w.client.Close()
	for _, m := range w.members {
		m.link.close()
	}
	w.cluster.Close()
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

func (w *world) kafka(dial dialer, opts ...kgo.Opt) kafka.Config {
	c := kafka.Config{Opts: append(opts, kgo.Dialer(dial))}
	for _, p := range w.ports {
		c.Brokers = append(c.Brokers, fmt.Sprintf("127.0.0.1:%d", p))
	}
	return c
}

func deadLetter(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }

// letters is the policy of a world in which up to half of the records are bad: that many are no flood.
func letters() *dlq.Policy { return &dlq.Policy{Topic: rejects, MaxShare: 1} }

// flow is the configuration of the flow, without what is a member's own.
func (w *world) flow() holdfast.Config[*tally] {
	c := holdfast.Config[*tally]{
		Kafka: w.kafka(w.net.DialContext), Group: group, Inputs: []string{input}, Outputs: []string{output},
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{Configs: map[string]string{"min.compaction.lag.ms": "604800000"}}},
		Codec:     codec.JSON[*tally](), Fold: fold, Clone: clone, Guarantee: w.s.Guarantee, OnError: deadLetter,
		DeadLetters: letters(), Member: w.s.Member, Commit: w.s.Commit,
	}
	if w.s.NoClone {
		c.Clone = nil
	}
	return c
}

func (w *world) pipe() pipe.Config {
	return pipe.Config{
		Kafka: w.kafka(w.net.DialContext), Group: group, Inputs: []string{input}, Outputs: []string{output},
		Create: &holdfast.TopicConfig{Configs: map[string]string{"min.compaction.lag.ms": "604800000"}},
		Func:   copyRecord, Concurrency: w.s.Concurrency, OnError: deadLetter,
		DeadLetters: letters(), Member: w.s.Member, Commit: w.s.Commit,
	}
}

func (w *world) model() holdfasttest.Model {
	if w.s.Pipe {
		return holdfasttest.Pipe(w.pipe())
	}
	return holdfasttest.Flow(w.flow())
}

// member is one process of the group, as far as the brokers can see.
type member struct {
	w      *world
	name   string
	link   *link
	rec    *holdfasttest.Recorder
	marks  *marks
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Run, once done is closed
	killed bool
	asked  bool                                  // to end
	slow   atomic.Pointer[func(context.Context)] // called once, by the next call of the user's function
	gate   func(partition int32)                 // called by each; set it while no record is under way
}

// start runs a member.
func (w *world) start(name string) *member {
	w.t.Helper()
	m := &member{
		w: w, name: name, link: newLink(w.net, w.seed*1000+uint64(len(w.members)), w.s.Delay),
		rec: holdfasttest.NewRecorder(name, nil), done: make(chan struct{}),
	}
	m.marks, m.link.slow = newMarks(w.states), w.s.Slow
	run, err := m.build()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	m.cancel = cancel
	go func() {
		defer close(m.done)
		m.err = run.Run(ctx)
		m.rec.Stopped(m.err)
	}()
	w.members = append(w.members, m)
	return m
}

// runner is a flow or a pipe.
type runner interface{ Run(context.Context) error }

func (m *member) build() (runner, error) {
	hooks := []holdfast.Hooks{m.marks.hooks(), m.w.hooks}
	if m.w.s.Pipe {
		conf := m.w.pipe()
		conf.Kafka, conf.Logger = m.w.kafka(m.link.Dial, kgo.ClientID(m.name)), slog.New(logged{marks: m.marks})
		conf.Hooks = append(hooks, m.rec.Hooks())
		call := conf.Func
		conf.Func = func(ctx context.Context, r stream.Record, out *pipe.Out) error {
			m.linger(ctx, r)
			return call(ctx, r, out)
		}
		return pipe.New(conf)
	}
	conf := m.w.flow()
	conf.Kafka, conf.Logger, conf.Hooks = m.w.kafka(m.link.Dial, kgo.ClientID(m.name)), slog.New(logged{marks: m.marks}), hooks
	call := conf.Fold
	conf.Fold = func(ctx context.Context, k *holdfast.Key[*tally], r stream.Record) error {
		m.linger(ctx, r)
		return call(ctx, k, r)
	}
	return holdfast.New(holdfasttest.Watch(m.rec, conf))
}

// linger is what the user's function does before its work.
func (m *member) linger(ctx context.Context, r stream.Record) {
	if m.gate != nil {
		m.gate(r.Partition)
	}
	if f := m.slow.Swap(nil); f != nil {
		(*f)(ctx)
	}
}

// next has the next call of the user's function begin with f.
func (m *member) next(f func(context.Context)) { m.slow.Store(&f) }

// running reports whether the member takes part: neither killed, nor at its end, nor asked to end.
func (m *member) running() bool {
	select {
	case <-m.done:
		return false
	default:
		return !m.killed && !m.asked
	}
}

// kill cuts the member off for good: nothing that it does afterwards reaches a broker.
func (m *member) kill() {
	m.killed = true
	m.link.kill()
	m.cancel()
}

// id returns the member's id in the group, "" if the group does not know the member.
func (m *member) id() string {
	if info := m.w.cluster.GroupInfo(group); info != nil {
		for _, one := range info.Members {
			if one.ClientID == m.name {
				return one.MemberID
			}
		}
	}
	return ""
}

// expel has the group forget a member, as an operator would by the admin API; under KIP-848, which has no
// such request, by a last heartbeat in the member's name.
func (w *world) expel(id string) {
	if w.s.Member.Protocol == fence.ServerSide {
		bye := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		bye.Group, bye.MemberID, bye.MemberEpoch = group, id, -1
		if resp, err := bye.RequestWith(w.ctx, w.client); err != nil || resp.ErrorCode != 0 {
			w.t.Logf("%v: the member was not expelled: %v, %v", time.Since(w.began), err, resp)
		}
		return
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID = id
	req.Members = append(req.Members, one)
	if _, err := req.RequestWith(w.ctx, w.client); err != nil {
		w.t.Logf("%v: the member was not expelled: %v", time.Since(w.began), err)
	}
}

// coordinator returns the address of the group's coordinator.
func (w *world) coordinator() string {
	return fmt.Sprintf("127.0.0.1:%d", 9092+w.cluster.CoordinatorFor(group))
}

// broken ends a test that cannot do its own part. What it says goes out at once: the bubble then panics,
// as members still run in it, and what the test has logged is lost.
func (w *world) broken(what string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v: the test cannot %s: %v\n", w.t.Name(), time.Since(w.began), what, err)
	w.t.FailNow()
}

// record is one record of the input.
type record struct {
	partition  int32
	key, value string
	at         time.Time // zero: the time of sending
}

// send writes records and waits until the brokers have them. They are in the input for good.
func (w *world) send(rs ...record) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	defer cancel()
	for _, r := range w.client.ProduceSync(ctx, records(rs)...) {
		if r.Err != nil {
			w.broken("write its input", r.Err)
		}
		w.ends[r.Record.Partition] = max(w.ends[r.Record.Partition], r.Record.Offset+1)
	}
}

func records(rs []record) (out []*kgo.Record) {
	for _, r := range rs {
		out = append(out, &kgo.Record{Topic: input, Partition: r.partition, Key: []byte(r.key), Value: []byte(r.value), Timestamp: r.at})
	}
	return out
}

// discard writes records in a transaction that it aborts.
func (w *world) discard(rs ...record) {
	w.t.Helper()
	tx, err := w.kafka(w.net.DialContext).Client(kgo.TransactionalID("the-test"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		w.t.Fatal(err)
	}
	defer tx.Close()
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	defer cancel()
	err = tx.BeginTransaction()
	if err == nil {
		err = tx.ProduceSync(ctx, records(rs)...).FirstErr()
	}
	if err = errors.Join(err, tx.EndTransaction(ctx, kgo.TryAbort)); err != nil {
		w.t.Logf("%v: the test's own aborted transaction: %v", time.Since(w.began), err)
	}
}

// open writes to the snapshots or the progress in a transaction under an id of its own, and returns what
// aborts it. A restore waits for its end meanwhile.
func (w *world) open(id string, p int32) (end func()) {
	w.t.Helper()
	topic := group + "-snapshots"
	if w.s.Pipe {
		topic = group + "-progress"
	}
	tx, err := w.kafka(w.net.DialContext).Client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.TransactionTimeout(10*time.Second)) // the broker ends it if its abort is refused
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	err = tx.BeginTransaction()
	if err == nil {
		err = tx.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: p, Key: []byte("stranger"), Value: []byte("aborted")}).FirstErr()
	}
	if err != nil {
		w.t.Logf("%v: the stranger's transaction: %v", time.Since(w.began), err)
	}
	return func() {
		if err := tx.EndTransaction(ctx, kgo.TryAbort); err != nil {
			w.t.Logf("%v: the end of the stranger's transaction: %v", time.Since(w.began), err)
		}
		cancel()
		tx.Close()
	}
}

// behind returns the partitions whose committed offset is not at the end of the input.
func (w *world) behind() (left []string) {
	var commits map[int32]kfake.GroupCommit
	if info := w.cluster.GroupInfo(group); info != nil {
		commits = info.Commits[input]
	}
	for p, end := range w.ends {
		c, ok := commits[int32(p)]
		if end > 0 && (!ok || c.Offset < end) {
			left = append(left, fmt.Sprintf("%s-%d is committed to %d (known %t) of %d", input, p, c.Offset, ok, end))
		}
	}
	return left
}

// reach waits until all that was written is committed, at most for bound. It returns what is left.
func (w *world) reach(bound time.Duration) (left []string) {
	for until := time.Now().Add(bound); ; {
		if left = w.behind(); len(left) == 0 || time.Now().After(until) {
			return left
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// stop asks all members to end, and returns those that have not within bound.
func (w *world) stop(bound time.Duration) (late []*member) {
	for _, m := range w.members {
		m.cancel()
	}
	limit := time.NewTimer(bound)
	defer limit.Stop()
	over := false
	for _, m := range w.members {
		if over {
			select {
			case <-m.done:
			default:
				late = append(late, m)
			}
			continue
		}
		select {
		case <-m.done:
		case <-limit.C:
			over = true
			late = append(late, m)
		}
	}
	return late
}

// judge collects what the run has left and returns what the checker finds.
func (w *world) judge() (holdfasttest.History, []holdfasttest.Violation) {
	w.t.Helper()
	var logs []holdfasttest.Member
	for _, m := range w.members {
		one := m.rec.Member()
		one.Killed = m.killed
		logs = append(logs, one)
	}
	model := w.model()
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	defer cancel()
	h, err := holdfasttest.Collect(ctx, model, logs...)
	if err != nil {
		w.broken("judge the run", err)
	}
	return h, holdfasttest.Check(h, model)
}
