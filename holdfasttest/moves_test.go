package holdfasttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

const movePartitions = 3

// moves are the components whose partitions move between members that come, go and are killed.
var moves = []struct {
	name  string
	setup func(r *run)
}{
	{"FencedState", func(r *run) { r.conf.Commit.Persist = 30 * time.Millisecond }},
	{"FencedOutputs", func(r *run) { whole(r, false) }},
	{"pipe of two inputs", func(r *run) {
		second := r.input() + "-more"
		r.create(movePartitions, second)
		piped(r, false)
		r.pipe.Inputs = append(r.pipe.Inputs, second)
		forward := r.pipe.Func
		r.pipe.Func = func(ctx context.Context, rec stream.Record, out *pipe.Out) error {
			if _, err := strconv.Atoi(string(rec.Value)); err != nil {
				return err
			}
			return forward(ctx, rec, out)
		}
		r.pipe.OnError, r.pipe.DeadLetters = r.conf.OnError, r.conf.DeadLetters
	}},
}

func TestMoves(t *testing.T) {
	t.Parallel()
	for _, c := range few(moves, 1) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			move(t, Broker(t), c.setup)
		})
	}
}

func TestKafkaMoves(t *testing.T) {
	t.Parallel()
	for _, c := range moves {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			move(t, kafka.Config{Brokers: kafkatest.Start(t).Addrs}, c.setup)
		})
	}
}

// move runs members that come, go and are killed over an input that has aborted and bad records, and
// expects that nothing is found.
func move(t *testing.T, k kafka.Config, setup func(*run)) {
	r := newRunWith(t, k, movePartitions)
	rejects := r.input() + "-rejects"
	r.create(movePartitions, rejects)
	r.conf.DeadLetters = &dlq.Policy{Topic: rejects}
	r.conf.OnError = func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }
	setup(r)
	w := &writer{r: r, rand: rand.New(rand.NewPCG(1, 2))}
	w.inputs = r.conf.Inputs
	if r.pipe != nil {
		w.inputs = r.pipe.Inputs
	}
	one := r.start(t.Context(), "one")
	w.write()
	r.reach()
	two := w.join("two")
	one.kill()
	three := w.join("three")
	two.stop()
	w.write()
	w.join("four")
	three.kill()
	w.write()
	r.reach()
	expect(t, r.check(), "")
	if h := r.history; len(h.Outputs[0].Records) == 0 || len(h.DeadLetters[0].Records)+len(h.DeadLetters[1].Records) == 0 {
		t.Error("the run has no outputs or no dead letters: it has tested less than it says")
	}
}

// writer writes to the inputs of a run: good records, bad ones, and some in a transaction that it aborts.
type writer struct {
	r      *run
	rand   *rand.Rand
	inputs []string
	n      int
}

func (w *writer) write() {
	t := w.r.t
	t.Helper()
	tx, err := w.r.k.Client(kgo.TransactionalID(w.r.conf.Group+"-writer"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := tx.ProduceSync(t.Context(), w.records(40)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := tx.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
}

// join starts a member and writes until it has committed: once it has partitions, each write has
// records for them.
func (w *writer) join(name string) *member {
	w.r.t.Helper()
	m := w.r.start(w.r.t.Context(), name)
	w.write()
	m.awaitKind(EventRestored)
	w.write()
	m.awaitKind(EventCommitted)
	return m
}

// records are of a few keys a partition, so that keys are deleted and come again.
func (w *writer) records(n int) (rs []*kgo.Record) {
	for range n {
		p := w.rand.Int32N(movePartitions)
		value := fmt.Sprint(w.rand.IntN(7) - 3)
		if w.n++; w.n%17 == 0 {
			value = "bad"
		}
		rs = append(rs, &kgo.Record{
			Topic: w.inputs[w.rand.IntN(len(w.inputs))], Partition: p, Value: []byte(value),
			Key: fmt.Appendf(nil, "k%d-%d", p, w.rand.IntN(8)),
			// Outputs of a pipe are told apart by it.
			Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, w.n)}},
		})
	}
	return rs
}

// reach waits until the committed offsets are at the end of the inputs: behind the last record, which
// is followed by one marker at least.
func (r *run) reach() {
	r.t.Helper()
	model := Flow(r.conf)
	if r.pipe != nil {
		model = Pipe(*r.pipe)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	adm := kadm.NewClient(r.cl)
	want := map[string]map[int32]int64{}
	for _, topic := range model.inputs {
		logs, err := readTopic(ctx, r.cl, topic)
		if err != nil {
			r.t.Fatal(err)
		}
		want[topic] = map[int32]int64{}
		for _, log := range logs {
			for _, rec := range log.Records {
				if rec.Status == Committed {
					want[topic][log.Partition.Partition] = rec.Offset + 1
				}
			}
		}
	}
	for {
		offsets, err := adm.FetchOffsets(ctx, r.conf.Group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // nobody has joined yet
			r.t.Fatal(err)
		}
		left := 0
		for topic, ends := range want {
			for p, end := range ends {
				if o, ok := offsets.Lookup(topic, p); !ok || o.At < end {
					left++
				}
			}
		}
		if left == 0 {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			r.t.Fatalf("%d partitions are not committed to their ends within %v: %v", left, patience, offsets)
		}
	}
}

// awaitKind waits for the first event of a kind.
func (m *member) awaitKind(kind string) {
	m.r.t.Helper()
	limit := time.After(patience)
	for {
		events, wake := m.lines.all()
		for _, e := range events {
			if e.Kind == kind {
				return
			}
		}
		select {
		case <-wake:
		case <-m.done:
			m.r.t.Fatalf("member %s ended while %s was awaited: %v", m.rec.name, kind, events)
		case <-limit:
			m.r.t.Fatalf("member %s: no %s within %v", m.rec.name, kind, patience)
		}
	}
}
