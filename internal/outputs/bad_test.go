package outputs

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// What breaks a whole batch is refused before anything is asked of Kafka.
func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		commit holdfast.Commit
		words  string
	}{
		"keep dirty":       {holdfast.Commit{OnPersistError: holdfast.KeepDirty}, "KeepDirty"},
		"persist interval": {holdfast.Commit{Persist: 1}, "Commit.Persist"},
	} {
		for _, k := range kinds {
			s := settings{Group: "g", Input: "in", Output: "out", Commit: c.commit}
			s.Kafka.Brokers = []string{"127.0.0.1:1"}
			if _, err := s.build(k); !errors.Is(err, holdfast.ErrConfig) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s, %s: New returned %v, want ErrConfig that names %s", name, k, err, c.words)
			}
		}
	}
}

// An output topic that is missing is named at the start.
func TestKafkaOutputTopicIsMissing(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		s := l.conf
		s.Output = kafkatest.UniqueName("nowhere")
		if err := l.start(t.Context(), "only", s).wait(); !errors.Is(err, stream.ErrTopic) || !strings.Contains(err.Error(), s.Output) {
			t.Errorf("ended with %v, want ErrTopic that names %s", err, s.Output)
		}
		if next := l.committed()[0]; next != 0 {
			t.Errorf("committed %d", next)
		}
	})
}

// An output for a topic that is not declared, and one that is larger than its topic takes, fail the
// step of their record: the error names its offset, and what came before is committed.
func TestKafkaOutputThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		set      func(*lab)
		sentinel error
	}{
		"undeclared": {func(l *lab) { l.conf.Stray = l.conf.Output + "-not" }, stream.ErrUndeclaredOutput},
		"too large": {func(l *lab) {
			l.conf.Payload = large("25")
			l.lower(l.conf.Output, 2, 10_000)
		}, stream.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, l *lab) {
				c.set(l)
				l.produce(0, 0, 30)
				m := l.start(t.Context(), "only", l.conf)
				if e := m.failure(c.sentinel); e.Offset != 25 || l.committed()[0] != 25 {
					t.Errorf("the error is about offset %d with %d committed, want 25 and 25: %v", e.Offset, l.committed()[0], e)
				}
				if n := len(all[stream.Refused](m, 0)); n != 0 {
					t.Errorf("%d transactions were refused: the step could have been failed at once", n)
				}
				l.verify()
			})
		})
	}
}

// Records that are not valid go to the dead letters by their class, each in the very transaction that
// passes it; the others are outputs.
func TestKafkaInvalidRecordsAreLetters(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		dead := l.k.CreateTopic(t, l.conf.Input+"-dead", 1, nil)
		invalid := errors.New("not valid")
		s := l.conf
		s.Before = func(_ context.Context, r stream.Record) error {
			if n, err := strconv.Atoi(string(r.Value)); err != nil || n%10 == 7 {
				return invalid
			}
			return nil
		}
		s.OnError = dlq.Classes(dlq.On(invalid, stream.DeadLetter))
		s.DeadLetters = &dlq.Policy{Topic: dead}
		l.produce(0, 0, 40)
		m := l.start(t.Context(), "only", s)
		m.committedTo(0, 40)
		m.stop()
		passed := map[attempt][2]int64{} // the offsets of each transaction
		var at int64
		for _, tx := range l.transactions() {
			if tx.status == wire.StatusCommitted {
				next := tx.progress[0].Inputs[0].Next
				passed[tx.attempt], at = [2]int64{at, next}, next
			}
		}
		var letters []string
		for _, e := range l.view(dead) {
			if !e.ReadCommitted() {
				continue
			}
			letters = append(letters, string(e.Record.Value))
			letter, err := dlq.Parse(wire.Record(e.Record))
			if err != nil {
				t.Fatal(err)
			}
			span := passed[attempt{e.Record.ProducerID, e.Record.ProducerEpoch}]
			if o := letter.Origin.Offset; l.epochs() && (o < span[0] || o >= span[1]) {
				t.Errorf("the letter of offset %d is in the transaction of offsets %d to %d", o, span[0], span[1])
			}
		}
		if want := []string{"7", "17", "27", "37"}; !slices.Equal(letters, want) {
			t.Errorf("letters %q, want %q", letters, want)
		}
		for _, o := range []int64{7, 17, 27, 37} {
			l.skipped[o] = true
		}
		l.verify()
	})
}

// The input has transactions of its own, and aborted ones: their records are never given to anybody,
// and the committed offset goes past them and past the control records.
func TestKafkaInputWithAbortedBatches(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		cl := l.k.Client(t, kgo.TransactionalID(l.conf.Input), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
		end := kgo.TryCommit
		transact := func(how kgo.TransactionEndTry, values ...string) {
			t.Helper()
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for _, v := range values {
				if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: l.conf.Input, Key: []byte("k"), Value: []byte(v)}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := cl.EndTransaction(t.Context(), how); err != nil {
				t.Fatal(err)
			}
		}
		transact(kgo.TryAbort, "1", "2") // offsets 0 to 2, with the marker
		transact(end, "4", "5")          // 3 to 5
		transact(kgo.TryAbort, "7", "8") // 6 to 8
		var mu sync.Mutex
		var given []string
		s := l.conf
		s.Before = func(_ context.Context, r stream.Record) error {
			mu.Lock()
			defer mu.Unlock()
			given = append(given, string(r.Value))
			return nil
		}
		m := l.start(t.Context(), "first", s)
		m.committedTo(0, 5)
		m.stop()
		again := l.start(t.Context(), "second", s)
		transact(end, "10", "11")        // 9 to 11
		transact(kgo.TryAbort, "1", "2") // 12 to 14
		transact(end, "13")              // 15
		again.committedTo(0, 16)
		again.stop()
		if want := []string{"4", "5", "10", "11", "13"}; !slices.Equal(given, want) {
			t.Errorf("records %q were given, want %q", given, want)
		}
		l.verify()
	})
}

// The compacted topic ends with a transaction that was aborted: its last record is not where the
// restore ends.
// Public cases D5, N4.
func TestKafkaRestorePastAbortedTail(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.produce(0, 0, 10)
		first := l.start(t.Context(), "first", l.conf)
		first.committedTo(0, 10)
		first.stop()
		cl := l.k.Client(t, kgo.TransactionalID(l.conf.Input), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: l.progress(), Key: []byte("k0-0"), Value: []byte(`{"N":99}`)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		second := l.start(t.Context(), "second", l.conf)
		if e := await(second, 0, anyOf[stream.Restored]); e.Start != 10 {
			t.Errorf("restored %+v, want offset 10", e)
		}
		l.produce(0, 10, 20)
		second.committedTo(0, 20)
		second.stop()
		l.verify()
	})
}
