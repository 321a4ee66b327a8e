package outputs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/hooklog"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// patience bounds every wait for an event: it is far above what a healthy run takes, so that only a
// hang meets it.
const patience = 90 * time.Second

// kind is what runs: both kinds do the same with a record, and the flow counts as well.
type kind string

const (
	isPipe kind = "pipe"
	isFlow kind = "flow"
)

var kinds = []kind{isPipe, isFlow}

// tally is the state of the tests' flows. It depends on each record, so that a lost or repeated one
// shows.
type tally struct {
	N   int // records folded
	Sum int // of their values
}

func (s tally) with(value int) tally { return tally{s.N + 1, s.Sum + value} }

// fanout is how many outputs a record has: a pipe filters those that have none.
func fanout(value int) int { return value % 3 }

// text is the value of output i of a record. That of a flow tells the state that made it.
func text(k kind, value, i int, s tally) string {
	if k == isPipe {
		return fmt.Sprintf("%d.%d", value, i)
	}
	return fmt.Sprintf("%d.%d after %d records of sum %d", value, i, s.N, s.Sum)
}

// settings is what tests vary. The same is made of it for each kind.
type settings struct {
	Kafka       kafka.Config
	Group       string
	Input       string
	Output      string
	Commit      holdfast.Commit
	Member      holdfast.Member
	OnError     func(context.Context, *stream.RecordError) stream.Action
	DeadLetters *dlq.Policy
	Concurrency int
	Logger      *slog.Logger
	Hooks       []holdfast.Hooks
	// Before is called with each record before anything is done with it. An error fails the record.
	Before func(context.Context, stream.Record) error
	// Stray is the topic that the outputs of value 25 go to. "": Output, as for all others.
	Stray string
	// Payload is appended to each output. nil: nothing.
	Payload func(stream.Record) []byte
}

// component is a pipe or a flow.
type component interface {
	Run(context.Context) error
	Check(context.Context) (holdfast.Report, error)
}

func (s settings) value(r stream.Record, text string) []byte {
	if s.Payload == nil {
		return []byte(text)
	}
	return append([]byte(text), s.Payload(r)...)
}

func (s settings) topic(value int) string {
	if s.Stray != "" && value == 25 {
		return s.Stray
	}
	return s.Output
}

func (s settings) before(ctx context.Context, r stream.Record) (int, error) {
	if s.Before != nil {
		if err := s.Before(ctx, r); err != nil {
			return 0, err
		}
	}
	return strconv.Atoi(string(r.Value))
}

func (s settings) build(k kind) (component, error) {
	if k == isPipe {
		return pipe.New(pipe.Config{
			Kafka: s.Kafka, Group: s.Group, Inputs: []string{s.Input}, Outputs: []string{s.Output}, Create: &holdfast.TopicConfig{},
			Commit: s.Commit, Member: s.Member, OnError: s.OnError, DeadLetters: s.DeadLetters, Concurrency: s.Concurrency,
			Logger: s.Logger, Hooks: s.Hooks, Func: func(ctx context.Context, r stream.Record, out *pipe.Out) error {
				n, err := s.before(ctx, r)
				for i := range fanout(n) {
					out.Send(stream.Message{Topic: s.topic(n), Value: s.value(r, text(k, n, i, tally{}))})
				}
				return err
			},
		})
	}
	return holdfast.New(s.flow())
}

func (s settings) flow() holdfast.Config[tally] {
	return holdfast.Config[tally]{
		Kafka: s.Kafka, Group: s.Group, Inputs: []string{s.Input}, Outputs: []string{s.Output}, Guarantee: holdfast.FencedOutputs,
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.JSON[tally](),
		Commit: s.Commit, Member: s.Member, OnError: s.OnError, DeadLetters: s.DeadLetters, Logger: s.Logger, Hooks: s.Hooks,
		Fold: func(ctx context.Context, key *holdfast.Key[tally], r stream.Record) error {
			n, err := s.before(ctx, r)
			old, _ := key.State()
			state := old.with(n)
			key.Set(state)
			for i := range fanout(n) {
				key.Emit(stream.Message{Topic: s.topic(n), Key: r.Key, Value: s.value(r, text(isFlow, n, i, state))})
			}
			return err
		},
	}
}

// lab is one component's topics on a cluster, and what a test needs to look at them.
type lab struct {
	t     *testing.T
	k     *kafkatest.Cluster
	kind  kind
	conf  settings
	write *kgo.Client // to the partitions that records name
	read  *kgo.Client
	admin *kadm.Client

	skipped map[int64]bool // input offsets that a policy has passed over, of any partition
}

// newLab makes an input and an output topic on a cluster. Timings are short, so that transactions run
// all the time.
func newLab(t *testing.T, k *kafkatest.Cluster, what kind, partitions int32) *lab {
	t.Helper()
	input := k.CreateTopic(t, kafkatest.UniqueName("in"), partitions, nil)
	l := &lab{t: t, k: k, kind: what, skipped: map[int64]bool{}}
	l.write = k.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	l.read = k.Client(t)
	l.admin = kadm.NewClient(l.read)
	l.conf = settings{
		Kafka: kafka.Config{Brokers: k.Addrs}, Group: input + "-" + string(what), Input: input,
		Output: k.CreateTopic(t, input+"-out", 2, nil),
		Commit: holdfast.Commit{Interval: 20 * time.Millisecond},
		Member: holdfast.Member{SessionTimeout: 6 * time.Second, RebalanceTimeout: 20 * time.Second, HeartbeatInterval: 300 * time.Millisecond},
	}
	return l
}

// each runs a test for both kinds on a lab of its own.
func each(t *testing.T, test func(t *testing.T, l *lab)) {
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			test(t, newLab(t, kafkatest.Start(t), k, 1))
		})
	}
}

// progress is the topic that has the component's progress records.
func (l *lab) progress() string {
	if l.kind == isPipe {
		return l.conf.Group + "-progress"
	}
	return l.conf.Group + "-snapshots"
}

// id is the transactional id of an input partition.
func (l *lab) id(partition int32) string {
	return fence.TransactionalID(l.conf.Group, l.progress(), partition)
}

func keyOf(partition int32, value int) string { return fmt.Sprintf("k%d-%d", partition, value%3) }

// produce writes values from..to-1 to a partition, spread over three keys.
func (l *lab) produce(partition int32, from, to int) {
	l.t.Helper()
	var rs []*kgo.Record
	for i := from; i < to; i++ {
		rs = append(rs, &kgo.Record{Topic: l.conf.Input, Partition: partition, Key: []byte(keyOf(partition, i)), Value: []byte(strconv.Itoa(i))})
	}
	if err := l.write.ProduceSync(l.t.Context(), rs...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// expel takes every member out of the group, as the group does with a dead one after its session.
func (l *lab) expel() {
	l.t.Helper()
	groups, err := l.admin.DescribeGroups(l.t.Context(), l.conf.Group)
	if err != nil {
		l.t.Fatal(err)
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = l.conf.Group
	for _, m := range groups[l.conf.Group].Members {
		leaving := kmsg.NewLeaveGroupRequestMember()
		leaving.MemberID = m.MemberID
		req.Members = append(req.Members, leaving)
	}
	if _, err := req.RequestWith(l.t.Context(), l.read); err != nil {
		l.t.Fatal(err)
	}
}

// member is a component that runs on a goroutine of the test.
type member struct {
	t      *testing.T
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	log    *hooklog.Log
}

func (l *lab) member(name string) *member {
	m := &member{t: l.t, name: name, done: make(chan struct{})}
	m.log = hooklog.New(l.t, hooklog.Member{Name: name, Done: m.done, Err: func() error { return m.err }, Patience: patience})
	return m
}

// start runs a component until stop is called or the test ends. ctx may carry switched-off rules.
func (l *lab) start(ctx context.Context, name string, s settings) *member {
	l.t.Helper()
	m := l.member(name)
	s.Hooks = append([]holdfast.Hooks{m.log.Hooks()}, s.Hooks...)
	if s.Logger == nil {
		s.Logger = slog.New(slog.NewTextHandler(l.t.Output(), nil)).With("member", name)
	}
	c, err := s.build(l.kind)
	if err != nil {
		l.t.Fatal(err)
	}
	m.run(ctx, c)
	return m
}

func (m *member) run(ctx context.Context, c component) {
	ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		defer close(m.done)
		m.err = c.Run(rule.Without(ctx, rule.FenceProbe)) // the fence probe speaks the same protocol, and tests count and hold what the component sends
	}()
	m.t.Cleanup(func() { m.cancel(); <-m.done })
}

// stop ends the member in order, and fails the test if that is not without an error.
func (m *member) stop() {
	m.t.Helper()
	m.cancel()
	if err := m.wait(); err != nil {
		m.t.Errorf("%s ended with %v", m.name, err)
	}
}

// wait returns what Run returned.
func (m *member) wait() error {
	m.t.Helper()
	select {
	case <-m.done:
	case <-time.After(patience):
		m.t.Fatalf("%s has not ended within %v", m.name, patience)
	}
	return m.err
}

// failure waits for the end of a member that is to end with this error, and returns it.
func (m *member) failure(sentinel error) *stream.Error {
	m.t.Helper()
	err := m.wait()
	e, ok := errors.AsType[*stream.Error](err)
	if !ok || !errors.Is(err, sentinel) {
		m.t.Fatalf("%s ended with %v, want %v", m.name, err, sentinel)
	}
	return e
}

// lost is told apart from hooklog.Revoked, which has the same event.
type lost = hooklog.Lost

// mark is a place in the member's events, to wait for what comes after it.
func (m *member) mark() int { return m.log.Mark() }

// await waits for an event after mark that is an E and accepted by is, and returns it.
func await[E any](m *member, mark int, is func(E) bool) E {
	m.t.Helper()
	return hooklog.Await(m.log, mark, is)
}

// all returns the events after mark that are an E.
func all[E any](m *member, mark int) []E { return hooklog.All[E](m.log, mark) }

func anyOf[E any](E) bool { return true }

// committedTo waits until the member has committed next for partition p.
func (m *member) committedTo(p int32, next int64) stream.Committed {
	m.t.Helper()
	return await(m, 0, func(e stream.Committed) bool { return e.Partition.Partition == p && e.Next >= next })
}
