package snapshot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// owner writes snapshots under a transactional id.
func owner(t *testing.T, k *kafkatest.Cluster, id string, timeout time.Duration) *kgo.Client {
	return k.Client(t, kgo.TransactionalID(id), kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConcurrentTransactionsBackoff(5*time.Millisecond))
}

// write writes snapshot records in a transaction and leaves it open.
func write(t *testing.T, cl *kgo.Client, topic string, recs ...Record) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		m, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		rec := &kgo.Record{Topic: topic, Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			rec.Headers = append(rec.Headers, kgo.RecordHeader(h))
		}
		if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func end(t *testing.T, cl *kgo.Client, how kgo.TransactionEndTry) {
	t.Helper()
	if err := cl.EndTransaction(t.Context(), how); err != nil {
		t.Fatal(err)
	}
}

func state(key, value string, applied int64) Record {
	return Record{Key: []byte(key), Value: []byte(value), Header: Header{Applied: []int64{applied}}}
}

// table folds snapshots into the state that a restore ends with.
func table(into map[string]Record) func(stream.Record) error {
	return func(r stream.Record) error {
		rec, err := Decode(r)
		if err != nil {
			return err
		}
		if rec.Kind == Tombstone {
			delete(into, string(rec.Key))
		} else {
			into[string(rec.Key)] = rec
		}
		return nil
	}
}

func ends(t *testing.T, l wire.Log) (hw, lso int64) {
	t.Helper()
	_, hw, lso, err := l.Ends(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return hw, lso
}

// settle waits until the log's ends are these: the marker of an ended transaction is written some
// time after EndTxn was answered.
func settle(t *testing.T, l wire.Log, highWatermark, lastStable int64) {
	t.Helper()
	ctx := within(t, time.Minute)
	for {
		hw, lso := ends(t, l)
		if hw == highWatermark && lso == lastStable {
			return
		}
		if hw > highWatermark || lso > lastStable || !sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) {
			t.Fatalf("the high watermark is %d and the last stable offset %d, want %d and %d", hw, lso, highWatermark, lastStable)
		}
	}
}

// Public case N3.
func TestKafkaRestoreEveryKind(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("kinds"), 1, map[string]string{"cleanup.policy": "compact"})
	want := []Record{
		state("a", "1", 7), state("\x00zero", "2", 8), {Key: []byte("empty"), Value: []byte{}, Header: Header{Applied: []int64{9}}},
		{Key: []byte("gone"), Kind: Deleted, Header: Header{Applied: []int64{10}, Steps: 3}},
		{Key: []byte("timed"), Kind: NoState, Header: Header{Applied: []int64{-1}, Timers: []Timer{{"wake", 1700000000000}}}},
	}
	cl := owner(t, k, topic, time.Minute)
	write(t, cl, topic, append([]Record{state("b", "x", 1)}, want...)...)
	write2 := Record{Key: []byte("b"), Kind: Tombstone, Header: Header{Applied: []int64{2}}}
	end(t, cl, kgo.TryCommit)
	write(t, cl, topic, write2)
	end(t, cl, kgo.TryCommit)
	settle(t, wire.Log{Client: cl, Topic: topic}, 9, 9)
	got := map[string]Record{}
	res, err := Restore(within(t, time.Minute), RestoreConfig{Client: k.Client(t), Topic: topic, Each: table(got)})
	if err != nil || res.Records != 7 || res.Position != 9 || res.Target != 9 {
		t.Fatalf("%+v, %v", res, err)
	}
	if len(got) != len(want) {
		t.Errorf("restored %d keys, want %d", len(got), len(want))
	}
	for _, w := range want {
		g := got[string(w.Key)]
		if g.Kind != w.Kind || string(g.Value) != string(w.Value) || !slices.Equal(g.Applied, w.Applied) || !slices.Equal(g.Timers, w.Timers) || g.Steps != w.Steps {
			t.Errorf("key %q: got %+v, want %+v", w.Key, g, w)
		}
	}
}

// A committed snapshot lies above a transaction of somebody else that only its timeout ends. The
// restore must not miss it, which one that stops at the last stable offset does.
// Public case N5.
func TestKafkaRestoreWaitsOutAForeignTransaction(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("foreign"), 1, map[string]string{"cleanup.policy": "compact"})
	l := wire.Log{Client: k.Client(t), Topic: topic}
	us, foreign := owner(t, k, topic+"-us", time.Minute), owner(t, k, topic+"-foreign", 3*time.Second)
	write(t, us, topic, state("a", "old", 1))
	end(t, us, kgo.TryCommit)
	settle(t, l, 2, 2)
	write(t, foreign, topic, state("a", "foreign", 99), state("b", "foreign", 99))
	write(t, us, topic, state("a", "new", 2))
	end(t, us, kgo.TryCommit)
	settle(t, l, 6, 2) // the foreign transaction holds the last stable offset below a committed snapshot
	under := map[string]Record{}
	res, err := Restore(rule.Without(within(t, time.Minute), rule.RestoreBound), RestoreConfig{Client: l.Client, Topic: topic, Each: table(under)})
	if err != nil || res.Target != 2 || string(under["a"].Value) != "old" {
		t.Fatalf("a restore bounded by the last stable offset read %+v up to %d, %v: the trap is not set", under, res.Target, err)
	}
	lines, logger := newLog()
	got := map[string]Record{}
	res, err = Restore(within(t, 2*time.Minute), RestoreConfig{Client: l.Client, Topic: topic, Each: table(got), Logger: logger,
		StallTimeout: time.Minute, TransactionalID: topic + "-us",
		Retake: func(context.Context) error {
			return errors.New("the transaction is not ours, so nothing may be taken over")
		}})
	if err != nil || res.Target != 6 || res.Position != 6 {
		t.Fatalf("%+v, %v", res, err)
	}
	if len(got) != 1 || string(got["a"].Value) != "new" {
		t.Errorf("restored %v, want only a=new", got)
	}
	if n := len(lines.with("level=WARN")); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}

func TestKafkaRestoreStallIsDiagnosed(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("stall"), 1, map[string]string{"cleanup.policy": "compact"})
	foreign := owner(t, k, topic+"-etl", 10*time.Minute)
	write(t, foreign, topic, state("a", "foreign", 99))
	cl := k.Client(t)
	_, err := Restore(within(t, time.Minute), RestoreConfig{Client: cl, Topic: topic, Each: table(map[string]Record{}), StallTimeout: 2 * time.Second})
	if !errors.Is(err, stream.ErrRestoreStalled) || errors.Is(err, stream.ErrTruncated) {
		t.Fatalf("got %v, want a stall", err)
	}
	t.Log(err)
	for _, want := range []string{topic + "/0 offset 0", "no progress for 2s at offset 0 of 1", topic + "-etl", "producer id", "open since", "10m0s",
		"kafka-transactions.sh --bootstrap-server " + wire.Bootstrap(cl) + " abort --topic " + topic + " --partition 0 --start-offset 0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	_, err = Restore(within(t, time.Minute), RestoreConfig{Client: cl, Topic: topic, Each: table(map[string]Record{}),
		StallTimeout: 2 * time.Second, TransactionalID: topic + "-etl"})
	if !errors.Is(err, stream.ErrRestoreStalled) || !strings.Contains(err.Error(), "this partition's own") {
		t.Errorf("got %v, want a stall on our own id", err)
	}
}

// A stale owner opened a transaction after our takeover: taking over again ends it, long before its
// timeout does.
func TestKafkaRestoreTakesItsOwnIDOverAgain(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("retake"), 1, map[string]string{"cleanup.policy": "compact"})
	stale := owner(t, k, topic, 10*time.Minute)
	write(t, stale, topic, state("a", "stale", 99))
	taken := 0
	got := map[string]Record{}
	res, err := Restore(within(t, time.Minute), RestoreConfig{Client: k.Client(t), Topic: topic, Each: table(got), TransactionalID: topic,
		Retake: func(ctx context.Context) error {
			taken++
			_, _, err := owner(t, k, topic, time.Minute).ProducerID(ctx)
			return err
		}})
	if err != nil || taken != 1 || len(got) != 0 || res.Position != 1 {
		t.Errorf("%+v, %v after %d takeovers with %v", res, err, taken, got)
	}
}
