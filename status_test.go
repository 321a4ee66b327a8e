package holdfast_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/stream"
)

// gated is a codec that waits at a state before it decodes it.
type gated struct {
	codec.Codec[string]
	met  func() // called at the state
	open <-chan struct{}
}

func (g gated) Decode(b []byte) (string, error) {
	if string(b) == "wait" {
		g.met()
		<-g.open
	}
	return g.Codec.Decode(b)
}

// A flow is ready when each of its partitions is restored and not before, and says of each where it is. While a fold
// does not return, and from within folds and hooks, Status answers all the same.
func TestStatusAndReady(t *testing.T) {
	t.Parallel()
	conf, produce := twoRestored(t)
	open, met := make(chan struct{}), make(chan struct{})
	inFold, leaveFold := make(chan holdfast.Status), make(chan struct{})
	restored := make(chan stream.Restored, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var holder atomic.Pointer[holdfast.Flow[string]]
	conf.Codec = gated{Codec: codec.String(), met: sync.OnceFunc(func() { close(met) }), open: open}
	conf.Hooks = []holdfast.Hooks{{Restored: func(e stream.Restored) { holder.Load().Status(); restored <- e }}}
	conf.Fold = func(_ context.Context, k *holdfast.Key[string], r stream.Record) error {
		inFold <- holder.Load().Status()
		<-leaveFold
		return errors.New("this one fails\x1b[1m")
	}
	flow, err := holdfast.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	holder.Store(flow)
	if s := flow.Status(); s.Running || s.Ready || s.Group != "flow" || s.Partitions == nil {
		t.Errorf("before Run: %v", s)
	}
	ran := make(chan error, 1)
	go func() { ran <- flow.Run(ctx) }()
	<-met
	if e := <-restored; e.Partition.Partition != 0 {
		t.Fatalf("I6: partition %v is restored while its state is not decoded", e.Partition)
	}
	s := flow.Status()
	select {
	case <-flow.Ready():
		t.Error("I6: Ready is closed while a partition is restored")
	default:
	}
	if s.Ready || !s.Running || s.Generation < 0 || s.MemberID == "" || len(s.Partitions) != 2 || s.Partitions[1].Phase != stream.PhaseRestoring ||
		s.Partitions[0].Phase != stream.PhaseFolding || s.Partitions[0].Next < 1 || s.Partitions[0].Keys != 1 {
		t.Errorf("I6: while a partition is restored:\n%v", s)
	}
	close(open)
	<-flow.Ready()
	if s := flow.Status(); !s.Ready || s.Partitions[1].Phase != stream.PhaseFolding || s.Partitions[1].Keys != 1 || s.Partitions[1].Lag != 0 {
		t.Errorf("I6: when it is ready:\n%v", s)
	}
	at := flow.Status().Partitions[0].Next
	produce(0, "a", "stuck")
	<-inFold
	if p := flow.Status().Partitions[0]; p.Next < at || p.Lag < 1 || p.Committed > p.Next {
		t.Errorf("I6: while a fold does not return: %v", p)
	}
	close(leaveFold)
	if err := <-ran; !errors.Is(err, holdfast.ErrFold) {
		t.Errorf("Run: %v", err)
	}
	if s := flow.Status(); s.Ready || s.Running || s.Stopped.Cause != "fold" || len(s.Partitions) != 0 || s.Generation != -1 {
		t.Errorf("after the end:\n%v", s)
	}
}

// twoRestored is a flow of an input of two partitions, each with one state to be restored.
func twoRestored(t *testing.T) (holdfast.Config[string], func(partition int32, key, value string)) {
	t.Helper()
	broker, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0", Topics: []devbroker.Topic{{Name: "in", Partitions: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	client, err := broker.Kafka().Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	produce := func(partition int32, key, value string) {
		t.Helper()
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Partition: partition, Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce(0, "a", "go")
	produce(1, "b", "wait")
	conf := holdfast.Config[string]{
		Kafka: broker.Kafka(), Group: "flow", Inputs: []string{"in"}, Snapshots: created, Codec: codec.String(), Commit: often,
		Fold: func(_ context.Context, k *holdfast.Key[string], r stream.Record) error {
			k.Set(string(r.Value))
			return nil
		},
	}
	persist(t, conf, 2)
	return conf, produce
}

// persist runs a flow until as many states are committed.
func persist(t *testing.T, conf holdfast.Config[string], states int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	conf.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
		mu.Lock()
		defer mu.Unlock()
		if states -= e.Writes; states <= 0 {
			stop()
		}
	}}}
	flow, err := holdfast.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := flow.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// A start that is refused is in the status, which is never ready.
func TestStatusOfARefusedStart(t *testing.T) {
	t.Parallel()
	s := open()
	defer s.close()
	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka: s.Kafka(), Group: "flow", Inputs: []string{"missing"}, Snapshots: created, Codec: codec.String(),
		Fold: func(context.Context, *holdfast.Key[string], stream.Record) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := flow.Run(t.Context()); err == nil {
		t.Fatal("the start is not refused")
	}
	if s := flow.Status(); s.Running || s.Ready || s.Stopped.Error == "" || s.Stopped.Cause == "" {
		t.Errorf("I6: after a refused start: %v", s)
	}
}
