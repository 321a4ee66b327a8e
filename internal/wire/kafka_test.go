package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// writer is a transactional producer to one partition.
type writer struct {
	t     *testing.T
	cl    *kgo.Client
	topic string
}

func newWriter(t *testing.T, k *kafkatest.Cluster, topic, id string, timeout time.Duration) writer {
	return writer{t, k.Client(t, kgo.TransactionalID(id), kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConcurrentTransactionsBackoff(5*time.Millisecond)), topic}
}

// open writes the keys in a transaction and leaves it open.
func (w writer) open(keys ...string) {
	w.t.Helper()
	if err := w.cl.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	for _, k := range keys {
		r := &kgo.Record{Topic: w.topic, Key: []byte(k), Value: []byte("v")}
		if err := w.cl.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w writer) end(commit kgo.TransactionEndTry) {
	w.t.Helper()
	if err := w.cl.EndTransaction(w.t.Context(), commit); err != nil {
		w.t.Fatal(err)
	}
}

func (w writer) commit(keys ...string) { w.t.Helper(); w.open(keys...); w.end(kgo.TryCommit) }
func (w writer) abort(keys ...string)  { w.t.Helper(); w.open(keys...); w.end(kgo.TryAbort) }

// stableEnd waits until no transaction is open on the log and returns its high watermark: an ended
// transaction's marker is written some milliseconds after EndTxn is answered.
func stableEnd(t *testing.T, l Log) int64 {
	t.Helper()
	ctx := within(t, time.Minute)
	for {
		_, hw, lso, err := l.Ends(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if hw == lso {
			return hw
		}
		if !sleep(ctx, 10*time.Millisecond) {
			t.Fatalf("a transaction stays open: high watermark %d, last stable offset %d", hw, lso)
		}
	}
}

func readKeys(t *testing.T, l Log, o ReadOptions) (keys []string, position int64) {
	t.Helper()
	position, err := l.Read(within(t, time.Minute), o, func(r *kgo.Record) error {
		keys = append(keys, string(r.Key))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys, position
}

func TestKafkaReadByPosition(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	for name, tc := range map[string]struct {
		write       func(w writer)
		committed   string
		uncommitted string
		end         int64
	}{
		"empty":           {func(writer) {}, "", "", 0},
		"tail of markers": {func(w writer) { w.commit("a", "b") }, "a b", "a b", 3},
		"aborted tail":    {func(w writer) { w.commit("a"); w.abort("b", "c") }, "a", "a b c", 5},
		"only aborted":    {func(w writer) { w.abort("b", "c") }, "", "b c", 3},
		"aborted between": {func(w writer) { w.commit("a"); w.abort("b"); w.commit("c") }, "a c", "a b c", 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := k.CreateTopic(t, kafkatest.UniqueName("read"), 1, nil)
			tc.write(newWriter(t, k, topic, topic, time.Minute))
			l := Log{Client: k.Client(t), Topic: topic}
			end := stableEnd(t, l)
			if end != tc.end {
				t.Fatalf("the log ends at %d, want %d", end, tc.end)
			}
			for _, maxBytes := range []int32{0, 1} {
				var told []int64
				keys, position := readKeys(t, l, ReadOptions{To: end, Committed: true, MaxBytes: maxBytes,
					OnPosition: func(p int64) { told = append(told, p) }})
				if got := strings.Join(keys, " "); got != tc.committed || position != end {
					t.Errorf("read_committed got %q up to %d, want %q up to %d", got, position, tc.committed, end)
				}
				if !slices.IsSorted(told) || end > 0 && told[len(told)-1] != end {
					t.Errorf("told positions %v, want rising ones up to %d", told, end)
				}
				keys, position = readKeys(t, l, ReadOptions{To: end, MaxBytes: maxBytes})
				if got := strings.Join(keys, " "); got != tc.uncommitted || position != end {
					t.Errorf("read_uncommitted got %q up to %d, want %q up to %d", got, position, tc.uncommitted, end)
				}
			}
			if keys, position := readKeys(t, l, ReadOptions{From: end, To: end, Committed: true}); len(keys) > 0 || position != end {
				t.Errorf("a read in sync got %q up to %d", keys, position)
			}
		})
	}
}

func TestKafkaReadWaitsBelowAnOpenTransaction(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("open"), 1, nil)
	holder, other := newWriter(t, k, topic, topic+"-a", time.Minute), newWriter(t, k, topic, topic+"-b", time.Minute)
	other.commit("before")
	holder.open("held")
	other.commit("above")
	l := Log{Client: k.Client(t), Topic: topic}
	ctx := within(t, time.Minute)
	var hw, lso int64
	for hw != 5 { // the marker behind "above" is written some time after EndTxn was answered
		var err error
		if _, hw, lso, err = l.Ends(ctx); err != nil || lso != 2 {
			t.Fatalf("last stable offset %d, high watermark %d, %v: want the open transaction at 2", lso, hw, err)
		}
	}
	var keys []string
	at2 := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		position, err := l.Read(ctx, ReadOptions{To: hw, Committed: true, OnPosition: func(p int64) {
			if p == lso {
				close(at2)
			}
		}}, func(r *kgo.Record) error { keys = append(keys, string(r.Key)); return nil })
		if err == nil && position != hw {
			err = fmt.Errorf("ended at %d, want %d", position, hw)
		}
		done <- err
	}()
	select {
	case <-at2:
	case err := <-done:
		t.Fatalf("the read ended while the transaction was open: %v", err)
	}
	holder.end(kgo.TryAbort)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(keys, " "); got != "before above" {
		t.Errorf("got %q", got)
	}
}

// Public case D13.
func TestKafkaReadLeavesOutWhatIsWrittenAfterTheTarget(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("growing"), 1, nil)
	cl := k.Client(t)
	produce := func(key string) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		produce(fmt.Sprint(i))
	}
	l := Log{Client: cl, Topic: topic}
	end := stableEnd(t, l)
	produce("late")
	if keys, position := readKeys(t, l, ReadOptions{To: end, Committed: true}); strings.Join(keys, " ") != "0 1 2" || position != 3 {
		t.Errorf("got %q up to %d, want 0 1 2 up to 3", keys, position)
	}
}

func TestKafkaReadBelowStartAndBeyondEnd(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("edges"), 1, nil)
	newWriter(t, k, topic, topic, time.Minute).commit("a", "b", "c", "d")
	cl := k.Client(t)
	l := Log{Client: cl, Topic: topic}
	end := stableEnd(t, l)
	var to kadm.Offsets
	to.AddOffset(topic, 0, 2, -1)
	if _, err := kadm.NewClient(cl).DeleteRecords(within(t, time.Minute), to); err != nil {
		t.Fatal(err)
	}
	if start, _, _, err := l.Ends(within(t, time.Minute)); err != nil || start != 2 {
		t.Fatalf("the log starts at %d, %v: want 2", start, err)
	}
	if keys, position := readKeys(t, l, ReadOptions{From: 0, To: end, Committed: true}); strings.Join(keys, " ") != "c d" || position != end {
		t.Errorf("from below the start: got %q up to %d", keys, position)
	}
	_, err := l.Read(within(t, time.Minute), ReadOptions{From: 90, To: 100, Committed: true}, func(*kgo.Record) error { return nil })
	if !errors.Is(err, stream.ErrTruncated) {
		t.Errorf("from beyond the end: got %v, want ErrTruncated", err)
	}
}

func TestKafkaReadNamesALostTopic(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("lost"), 1, nil)
	cl := k.Client(t)
	facts, err := TopicFacts(within(t, time.Minute), cl, topic)
	if err != nil {
		t.Fatal(err)
	}
	l := Log{Client: cl, Topic: topic, TopicID: facts.ID}
	if _, err := kadm.NewClient(cl).DeleteTopic(within(t, time.Minute), topic); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		_, err := l.Read(within(t, time.Minute), ReadOptions{To: 1}, func(*kgo.Record) error { return nil })
		return err
	}
	if err := read(); !errors.Is(err, stream.ErrTopic) || !strings.Contains(err.Error(), "--describe") {
		t.Errorf("deleted: got %v, want ErrTopic with the command to look", err)
	}
	k.CreateTopic(t, topic, 1, nil)
	if err := read(); !errors.Is(err, stream.ErrTopic) || !strings.Contains(err.Error(), "created again") {
		t.Errorf("created again: got %v, want ErrTopic that says so", err)
	}
}

// Public case G6.
func TestKafkaReadOverCompactedGaps(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{Properties: map[string]string{"log.cleaner.backoff.ms": "100"}})
	topic := k.CreateTopic(t, kafkatest.UniqueName("compacted"), 1, map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100",
		"max.compaction.lag.ms": "100", "delete.retention.ms": "0",
	})
	w := newWriter(t, k, topic, topic, time.Minute)
	for range 3 {
		w.commit("a", "b", "c")
	}
	l := Log{Client: k.Client(t), Topic: topic}
	ctx := within(t, 2*time.Minute)
	for {
		// The active segment is never compacted and rolls only when something is written.
		w.commit("last")
		end := stableEnd(t, l)
		keys, position := readKeys(t, l, ReadOptions{To: end, Committed: true})
		if position != end {
			t.Fatalf("read up to %d, want %d", position, end)
		}
		if n := len(keys); n < 3 || keys[n-1] != "last" {
			t.Fatalf("got %q: the last of each key must survive", keys)
		}
		gone := true
		for _, key := range []string{"a", "b", "c"} {
			n := 0
			for _, have := range keys {
				if have == key {
					n++
				}
			}
			if n == 0 {
				t.Fatalf("got %q: key %q is lost", keys, key)
			}
			gone = gone && n == 1
		}
		if gone {
			return
		}
		if !sleep(ctx, 200*time.Millisecond) {
			t.Fatalf("the log was not compacted: %q", keys)
		}
	}
}

func TestKafkaReadOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{})
	topic := k.CreateTopic(t, kafkatest.UniqueName("restart"), 1, nil)
	cl := k.Client(t)
	produce := func() {
		if err := cl.ProduceSync(within(t, time.Minute), &kgo.Record{Topic: topic, Key: []byte("k")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce()
	l := Log{Client: k.Client(t), Topic: topic}
	reached, retried := make(chan struct{}, 1), make(chan struct{}, 1)
	done := make(chan error, 1)
	var records atomic.Int64
	ctx := within(t, 2*time.Minute)
	go func() {
		_, err := l.Read(ctx, ReadOptions{To: 2, Committed: true,
			OnPosition: func(int64) { reached <- struct{}{} },
			OnRetry: func(error) {
				select {
				case retried <- struct{}{}:
				default:
				}
			},
		}, func(*kgo.Record) error { records.Add(1); return nil })
		done <- err
	}()
	<-reached
	if err := k.Brokers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	<-retried
	if err := k.Brokers[0].Restart(ctx); err != nil {
		t.Fatal(err)
	}
	produce()
	<-reached
	if err := <-done; err != nil || records.Load() != 2 {
		t.Fatalf("%d records, %v: want 2", records.Load(), err)
	}
}
