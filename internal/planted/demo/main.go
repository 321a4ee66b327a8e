// Command demo is the fault-free demo of the planted bugs: a flow of each guarantee and a pipe run on
// an embedded broker until all is committed, and stop in order. No member is killed, no request is
// lost, no partition moves, nothing is restored. A reader of its own then computes every state and every
// output again from the input. It exits with 0 if they are right: a planted bug that shows here already is
// none that only a fault brings out.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	input      = "in"
	partitions = 2
	records    = 160
	patience   = time.Minute
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	fmt.Println("ok")
}

func run() (err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("it hangs"))
	defer cancel()
	broker, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	w, err := newWorld(ctx, broker.Kafka())
	if err != nil {
		return err
	}
	defer w.client.Close()
	if err := w.write(ctx); err != nil {
		return err
	}
	if err := w.runAll(ctx); err != nil {
		return err
	}
	return w.check(ctx)
}

// world is the broker with what was written to its input.
type world struct {
	kafka   kafka.Config
	client  *kgo.Client
	written []*kgo.Record
	ends    map[stream.Partition]int64
}

func newWorld(ctx context.Context, k kafka.Config) (*world, error) {
	client, err := k.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	w := &world{kafka: k, client: client, ends: map[stream.Partition]int64{}}
	topics := []string{input}
	for _, j := range w.jobs() {
		topics = append(topics, j.output())
	}
	created, err := kadm.NewClient(client).CreateTopics(ctx, partitions, -1, nil, topics...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return w, nil
}

// write adds records, whose keys stay in their partition.
func (w *world) write(ctx context.Context) error {
	for range records {
		i := len(w.written)
		key := i * i % 7
		r := &kgo.Record{Topic: input, Partition: int32(key % partitions), Key: fmt.Append(nil, "k", key), Value: fmt.Append(nil, i%5)}
		if err := w.client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
		w.written = append(w.written, r)
		w.ends[stream.Partition{Topic: input, Partition: r.Partition}] = r.Offset + 1
	}
	return nil
}

// job is one component under test.
type job struct {
	name string
	new  func(stream.Hooks) (runner, error)
}

type runner interface{ Run(context.Context) error }

func (j job) output() string { return j.name + "-out" }

func (w *world) jobs() []job {
	member := holdfast.Member{HeartbeatInterval: 100 * time.Millisecond}
	flow := func(name string, g holdfast.Guarantee, commit holdfast.Commit) job {
		j := job{name: name}
		j.new = func(h stream.Hooks) (runner, error) {
			return holdfast.New(holdfast.Config[tally]{
				Kafka: w.kafka, Group: name, Inputs: []string{input}, Outputs: []string{j.output()}, Guarantee: g,
				Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.JSON[tally](),
				Fold: fold(j.output()), Member: member, Commit: commit, Hooks: []holdfast.Hooks{h},
			})
		}
		return j
	}
	copier := job{name: "pipe"}
	copier.new = func(h stream.Hooks) (runner, error) {
		return pipe.New(pipe.Config{
			Kafka: w.kafka, Group: copier.name, Inputs: []string{input}, Outputs: []string{copier.output()}, Create: &holdfast.TopicConfig{},
			Func: func(_ context.Context, _ stream.Record, out *pipe.Out) error {
				out.Forward(copier.output())
				return nil
			},
			Member: member, Commit: holdfast.Commit{Interval: 20 * time.Millisecond}, Hooks: []holdfast.Hooks{h},
		})
	}
	return []job{
		flow("state", holdfast.FencedState, holdfast.Commit{Persist: 50 * time.Millisecond, Interval: 20 * time.Millisecond}),
		flow("outputs", holdfast.FencedOutputs, holdfast.Commit{Interval: 20 * time.Millisecond}),
		flow("unfenced", holdfast.Unfenced, holdfast.Commit{Persist: 50 * time.Millisecond, Interval: 20 * time.Millisecond}),
		copier,
	}
}

func (w *world) runAll(ctx context.Context) error {
	ticking, stop := context.WithCancel(ctx)
	var ticks sync.WaitGroup
	ticks.Go(func() { w.tick(ticking) })
	defer ticks.Wait()
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, j := range w.jobs() {
		wg.Go(func() {
			if err := w.runOne(ctx, j); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("%s: %w", j.name, err))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// tickKey is the key of records that keep coming, so that no input falls silent. Nobody looks at them.
const tickKey = "tick"

// tick writes such records until ctx ends. One that fails shows as a job that hangs.
func (w *world) tick(ctx context.Context) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		for p := range int32(partitions) {
			w.client.Produce(ctx, &kgo.Record{Topic: input, Partition: p, Key: []byte(tickKey), Value: []byte("0")}, nil)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// runOne runs a job until it has committed all of the input, and stops it.
func (w *world) runOne(ctx context.Context, j job) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	left := map[stream.Partition]int64{}
	for p, end := range w.ends {
		left[p] = end
	}
	var mu sync.Mutex
	r, err := j.new(stream.Hooks{Committed: func(e stream.Committed) {
		mu.Lock()
		defer mu.Unlock()
		if end, ok := left[e.Partition]; ok && e.Next >= end {
			delete(left, e.Partition)
		}
		if len(left) == 0 {
			stop()
		}
	}})
	if err == nil {
		err = r.Run(running)
	}
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}
