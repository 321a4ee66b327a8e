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

// patience bounds every wait of the tests; none of them ends by it unless it fails.
const patience = 60 * time.Second

func testLogger(t *testing.T) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("test", t.Name())
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// fakeCluster starts an embedded broker with an input and a progress topic of one partition each.
func fakeCluster(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, kafka.Config) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.SeedTopics(1, testInput, testProgress),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, kafka.Config{Brokers: c.ListenAddrs()}
}

func topicID(t *testing.T, k kafka.Config, topic string) [16]byte {
	t.Helper()
	cl := testClient(t, k)
	topics, err := kadm.NewClient(cl).ListTopics(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	return topics[topic].ID
}

func testClient(t *testing.T, k kafka.Config, opts ...kgo.Opt) *kgo.Client {
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

	// onReleased, if set, is called in the callback.
	mu         sync.Mutex
	onReleased func(*Ownership, bool)
	stop       func()
}

type release struct {
	o    *Ownership
	lost bool
}

func (m *member) whenReleased(f func(*Ownership, bool)) {
	m.mu.Lock()
	m.onReleased = f
	m.mu.Unlock()
}

// join starts a member. It leaves at the end of the test.
func join(t *testing.T, k kafka.Config, s Session, opts ...kgo.Opt) *member {
	t.Helper()
	m := &member{grants: make(chan *Ownership, 64), ends: make(chan release, 64)}
	m.Group = NewGroup(
		func(_ context.Context, o *Ownership) { m.grants <- o },
		func(o *Ownership, lost bool) {
			m.mu.Lock()
			f := m.onReleased
			m.mu.Unlock()
			if f != nil {
				f(o, lost)
			}
			m.ends <- release{o, lost}
		})
	if s.Group == "" {
		s.Group = testGroup
	}
	if s.HeartbeatInterval == 0 {
		s.HeartbeatInterval = 100 * time.Millisecond
	}
	cl, err := m.NewClient(context.Background(), k, s, append([]kgo.Opt{kgo.ConsumeTopics(testInput)}, opts...)...)
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
func (m *member) granted(t *testing.T) *Ownership {
	t.Helper()
	select {
	case o := <-m.grants:
		return o
	case <-time.After(patience):
		t.Fatal("no grant")
		return nil
	}
}

func writerConfig(t *testing.T, k kafka.Config, o *Ownership) Config {
	t.Helper()
	return Config{
		Kafka: k, Group: testGroup, Ownership: o,
		Input:        stream.Partition{Topic: testInput},
		Progress:     stream.Partition{Topic: testProgress},
		InputTopicID: topicID(t, k, testInput), InputPartitions: 1,
		Logger: testLogger(t),
	}
}

func openWriter(t *testing.T, c Config) (*Writer, Committed) {
	t.Helper()
	w, found, err := Open(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeWriter(t, w) })
	return w, found
}

func closeWriter(t *testing.T, w *Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// restored returns what the progress partition holds: the last value of each key, and the newest
// progress record with its offset.
func restored(t *testing.T, k kafka.Config) (state map[string]string, p Progress, at int64) {
	t.Helper()
	state, at = map[string]string{}, -1
	for r, err := range Restore(testContext(t), RestoreConfig{Kafka: k, Partition: stream.Partition{Topic: testProgress}}) {
		if err != nil {
			t.Fatal(err)
		}
		found, ok, err := progressFrom(r)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			p, at = found, r.Offset
			continue
		}
		state[string(r.Key)] = string(r.Value)
	}
	return state, p, at
}

func put(key, value string) stream.Message {
	return stream.Message{Key: []byte(key), Value: []byte(value)}
}

func TestWriterCommitsRecordsAndOffset(t *testing.T) {
	t.Parallel()
	_, k := fakeCluster(t)
	m := join(t, k, Session{})
	o := m.granted(t)
	w, found := openWriter(t, writerConfig(t, k, o))
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
		t.Fatalf("an offset that goes back: %v", err)
	}
	if err := w.Commit(ctx, Offset{7, 0}); err != nil {
		t.Fatal(err)
	}
	closeWriter(t, w)
	if err := w.Write(ctx, put("a", "3")); !errors.Is(err, stream.ErrClosed) {
		t.Fatalf("write after close: %v", err)
	}
	state, p, _ := restored(t, k)
	if state["a"] != "2" || state["b"] != "1" {
		t.Errorf("state %v", state)
	}
	if p.Sequence != 3 || p.Nonce != o.Nonce() || p.Inputs[0].Next != 7 || p.Group != testGroup {
		t.Errorf("progress %+v", p)
	}
	_, found = openWriter(t, writerConfig(t, k, o))
	want := Committed{Next: 7, LeaderEpoch: 0, Nonce: o.Nonce(), Sequence: 3, TookOver: true}
	if found != want {
		t.Errorf("found %+v, want %+v", found, want)
	}
}
