package fence

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	testGroup    = "flow"
	testInput    = "in"
	testProgress = "state"
)

// place is where a test works: a cluster, a group, an input and a progress topic.
type place struct {
	k                      kafka.Config
	group, input, progress string
	// member, if set, is the connection of members in place of k, and txn that of writers.
	member, txn *kafka.Config
	memberOpts  []kgo.Opt
}

// patience bounds every wait of the tests; none of them ends by it unless it fails.
const patience = 60 * time.Second

func testLogger(t testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("test", t.Name())
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// fakeCluster starts an embedded broker with an input and a progress topic of one partition each.
func fakeCluster(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, place) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.SeedTopics(1, testInput, testProgress),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, place{k: kafka.Config{Brokers: c.ListenAddrs()}, group: testGroup, input: testInput, progress: testProgress}
}

func topicID(t testing.TB, k kafka.Config, topic string) [16]byte {
	t.Helper()
	cl := testClient(t, k)
	topics, err := kadm.NewClient(cl).ListTopics(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	return topics[topic].ID
}

func testClient(t testing.TB, k kafka.Config, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := k.Client(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// member is a live group member that polls and hands its grants out.
type member struct {
	*Group
	client *kgo.Client
	grants chan *Ownership
	ends   chan release
	stop   func()
}

type release struct {
	o    *Ownership
	lost bool
}

// join starts a member. It leaves at the end of the test.
func join(t testing.TB, p place, s Session, opts ...kgo.Opt) *member {
	t.Helper()
	return joinUnder(t, context.Background(), p, s, opts...)
}

// joinUnder is join with a context that may carry switched-off rules.
func joinUnder(t testing.TB, values context.Context, p place, s Session, opts ...kgo.Opt) *member {
	t.Helper()
	k := p.k
	if p.member != nil {
		k = *p.member
	}
	m := &member{grants: make(chan *Ownership, 64), ends: make(chan release, 64)}
	m.Group = NewGroup(
		func(_ context.Context, o *Ownership) { m.grants <- o },
		func(o *Ownership, lost bool) {
			m.ends <- release{o, lost}
		})
	s.Group = p.group
	if s.HeartbeatInterval == 0 {
		s.HeartbeatInterval = 100 * time.Millisecond
	}
	cl, err := m.NewClient(values, k, s, append(append([]kgo.Opt{kgo.ConsumeTopics(p.input)}, p.memberOpts...), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	m.client = cl
	ctx, cancel := context.WithCancel(context.Background())
	var polling sync.WaitGroup
	polling.Go(func() {
		for ctx.Err() == nil {
			cl.PollFetches(ctx)
			cl.AllowRebalance()
		}
	})
	var once sync.Once
	m.stop = func() {
		once.Do(func() {
			cancel()
			polling.Wait()
			cl.CloseAllowingRebalance()
		})
	}
	t.Cleanup(m.stop)
	return m
}

// granted waits for the next grant.
func (m *member) granted(t testing.TB) *Ownership {
	t.Helper()
	select {
	case o := <-m.grants:
		return o
	case <-time.After(patience):
		t.Fatal("no grant")
		return nil
	}
}

func (p place) config(t testing.TB, o *Ownership) Config {
	t.Helper()
	k := p.k
	if p.txn != nil {
		k = *p.txn
	}
	return Config{
		Kafka: k, Group: p.group, Ownership: o,
		Input:        o.Partition(),
		Progress:     p.progressOf(o.Partition().Partition),
		InputTopicID: topicID(t, p.k, p.input), InputPartitions: 1,
		Logger: testLogger(t),
	}
}

func (p place) progressOf(n int32) stream.Partition {
	return stream.Partition{Topic: p.progress, Partition: n}
}

func (p place) id(n int32) string { return TransactionalID(p.group, p.progress, n) }

func openWriter(t testing.TB, c Config) (*Writer, Committed) {
	t.Helper()
	w, found, err := Open(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeWriter(t, w) })
	return w, found
}

func closeWriter(t testing.TB, w *Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// restored returns what a progress partition holds: the last value of each key, and the newest
// progress record with its offset.
func (p place) restored(t *testing.T, n int32) (state map[string]string, newest Progress, at int64) {
	t.Helper()
	state, at = map[string]string{}, -1
	for r, err := range Restore(testContext(t), RestoreConfig{Kafka: p.k, Partition: p.progressOf(n)}) {
		if err != nil {
			t.Fatal(err)
		}
		found, ok, err := progressFrom(r)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			newest, at = found, r.Offset
			continue
		}
		state[string(r.Key)] = string(r.Value)
	}
	return state, newest, at
}

func put(key, value string) stream.Message {
	return stream.Message{Key: []byte(key), Value: []byte(value)}
}

func TestWriterCommitsRecordsAndOffset(t *testing.T) {
	t.Parallel()
	_, p := fakeCluster(t)
	checkCommits(t, p)
}

func checkCommits(t *testing.T, place place) {
	m := join(t, place, Session{})
	o := m.granted(t)
	w, found := openWriter(t, place.config(t, o))
	if found.Next != -1 || found.TookOver {
		t.Fatalf("a group without offsets gave %+v", found)
	}
	ctx := testContext(t)
	if err := w.Write(ctx, put("a", "0")); !errors.Is(err, stream.ErrNoOffset) {
		t.Fatalf("write before an offset: %v", err)
	}
	if err := w.Commit(ctx, Offset{3, -1}, put("a", "1"), put("b", "1")); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(ctx, put("a", "2")); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(ctx, Offset{2, -1}); !errors.Is(err, stream.ErrOffsetBack) {
		t.Fatalf("committed-rises: an offset that goes back: %v", err)
	}
	if err := w.Commit(ctx, Offset{7, 0}); err != nil {
		t.Fatal(err)
	}
	closeWriter(t, w)
	if err := w.Write(ctx, put("a", "3")); !errors.Is(err, stream.ErrClosed) {
		t.Fatalf("write after close: %v", err)
	}
	state, p, _ := place.restored(t, 0)
	if state["a"] != "2" || state["b"] != "1" {
		t.Errorf("state %v", state)
	}
	if p.Sequence != 3 || p.Nonce != o.Nonce() || p.Inputs[0].Next != 7 || p.Group != place.group {
		t.Errorf("progress %+v", p)
	}
	_, found = openWriter(t, place.config(t, o))
	want := Committed{Next: 7, LeaderEpoch: 0, Nonce: o.Nonce(), Sequence: 3, Kind: "flow", TookOver: true}
	if found != want {
		t.Errorf("I5: what was told as committed is not: found %+v, want %+v", found, want)
	}
}
