package acceptance

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

// failing folds everything but "bad", for which it fails as how says.
func failing(how string) foldFunc {
	return func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
		if string(r.Value) != "bad" {
			return fold(ctx, k, r)
		}
		s, _ := k.State()
		k.Set(s.with(1_000_000, r.Offset)) // must leave no trace
		if how == "panic" {
			panic("bad record")
		}
		return errors.New("bad record")
	}
}

// verdicts is an error policy that keeps what it was asked.
type verdicts struct {
	mu    sync.Mutex
	asked []stream.RecordError
	say   func(attempt int) stream.Action // by the number of calls so far
}

func (v *verdicts) decide(_ context.Context, e *stream.RecordError) stream.Action {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, *e)
	return v.say(len(v.asked))
}

func (v *verdicts) all() []stream.RecordError {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.asked)
}

func always(a stream.Action) func(int) stream.Action { return func(int) stream.Action { return a } }

// The default policy: the flow stops with an error that says where, what was folded before the record
// is committed, nothing past it. It would commit nothing for an hour but for the stop.
// Public case N5.
func TestKafkaPolicyStop(t *testing.T) {
	for _, c := range []struct {
		name     string
		key      []byte
		value    string
		fold     foldFunc
		sentinel error
		words    string
	}{
		{"error", []byte("k"), "bad", failing("error"), holdfast.ErrFold, "bad record"},
		{"panic", []byte("k"), "bad", failing("panic"), holdfast.ErrFold, "policy_test.go"}, // with the stack
		{"no key", nil, "4", fold, holdfast.ErrNoKey, "no key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := kafkatest.Start(t)
			input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
			group, pr := input+"-flow", producer(t, k)
			send(t, pr, input, "k", "1", "2")
			send(t, pr, input, "other", "3")
			bad := &kgo.Record{Topic: input, Key: c.key, Value: []byte(c.value)}
			if err := pr.ProduceSync(t.Context(), bad).FirstErr(); err != nil {
				t.Fatal(err)
			}
			send(t, pr, input, "other", "5")

			conf := rarely(config(k.Addrs, group, input))
			conf.Fold = c.fold
			err := start(t, t.Context(), "stopping", conf).failure()
			named(t, err, c.sentinel, c.words)
			located(t, err, stream.Partition{Topic: input}, 3, string(c.key))
			if got := committed(t, k, group, input)[0]; got != 3 {
				t.Errorf("committed %d, want 3, the record that stopped the flow", got)
			}
			if s := stored(t, k, group+"-snapshots"); s["k"].N != 2 || s["other"].N != 1 {
				t.Errorf("stored %+v, want what was folded before the record", s)
			}
		})
	}
}

// Skip leaves no trace of the record and goes on behind it.
func TestKafkaPolicySkip(t *testing.T) {
	for _, how := range []string{"error", "panic"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			k := kafkatest.Start(t)
			input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
			group, pr := input+"-flow", producer(t, k)
			send(t, pr, input, "k", "1", "bad", "3")
			none := &kgo.Record{Topic: input, Value: []byte("4")} // without a key
			if err := pr.ProduceSync(t.Context(), none).FirstErr(); err != nil {
				t.Fatal(err)
			}
			v := &verdicts{say: always(stream.Skip)}
			conf := config(k.Addrs, group, input)
			conf.Fold, conf.OnError = failing(how), v.decide
			f := start(t, t.Context(), "skipping", conf)
			f.committedTo(0, 4)
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
			asked := v.all()
			if len(asked) != 2 || asked[0].Record.Offset != 1 || asked[0].Panicked != (how == "panic") || !errors.Is(asked[1].Err, holdfast.ErrNoKey) {
				t.Errorf("the policy was asked %+v", asked)
			}
			for _, d := range check(t, k, group, input, group+"-snapshots") {
				t.Error(d)
			}
		})
	}
}

// Retry runs the step again until it succeeds, and its effects are there once.
func TestKafkaPolicyRetry(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	group, pr := input+"-flow", producer(t, k)
	send(t, pr, input, "k", "1", "2", "3")
	v := &verdicts{say: always(stream.Retry)}
	conf := config(k.Addrs, group, input)
	conf.OnError = v.decide
	conf.Fold = func(ctx context.Context, key *holdfast.Key[tally], r stream.Record) error {
		if err := fold(ctx, key, r); err != nil {
			return err
		}
		if r.Offset == 1 && len(v.all()) < 2 {
			return errors.New("not yet")
		}
		return nil
	}
	f := start(t, t.Context(), "retrying", conf)
	f.committedTo(0, 3)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	if asked := v.all(); len(asked) != 2 || asked[0].Attempt != 1 || asked[1].Attempt != 2 {
		t.Errorf("the policy was asked %+v, want attempts 1 and 2", asked)
	}
	for _, d := range check(t, k, group, input, group+"-snapshots") {
		t.Error(d)
	}
}

// shelf is a state with a reference: a fold can change it in place.
type shelf struct{ Seen map[string]int }

func shelve(_ context.Context, k *holdfast.Key[shelf], r stream.Record) error {
	s, ok := k.State()
	if !ok {
		s.Seen = map[string]int{}
	}
	s.Seen[string(r.Value)]++ // in place, before it is known that the record is bad
	if strings.HasPrefix(string(r.Value), "bad") {
		return errors.New("bad record")
	}
	k.Set(s)
	return nil
}

// A state that holds references and has no Clone may have been changed by the failed step: the
// partition is dropped, restored and goes on behind the record, which is not folded again. With a
// Clone nothing is dropped.
func TestKafkaPolicySkipWithReferences(t *testing.T) {
	for _, c := range []struct {
		name   string
		clone  func(shelf) shelf
		grants int // of the partition
	}{
		{"no clone", nil, 2}, // the first one, and one for the first bad record: from then on states are copied by the codec
		{"clone", func(s shelf) shelf { return shelf{maps.Clone(s.Seen)} }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := kafkatest.Start(t)
			input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
			group, pr := input+"-flow", producer(t, k)
			send(t, pr, input, "k", "a", "b", "bad1", "c", "bad2", "d")
			v := &verdicts{say: always(stream.Skip)}
			base := config(k.Addrs, group, input)
			f := start(t, t.Context(), "skipping", holdfast.Config[shelf]{
				Kafka: base.Kafka, Group: group, Inputs: base.Inputs, Snapshots: base.Snapshots, Commit: base.Commit, Member: base.Member,
				Codec: codec.JSON[shelf](), Fold: shelve, Clone: c.clone, OnError: v.decide,
			})
			f.committedTo(0, 6)
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
			if asked := v.all(); len(asked) != 2 {
				t.Errorf("the policy was asked %d times, want once for each bad record", len(asked))
			}
			if n := len(each[stream.Restored](f)); n != c.grants {
				t.Errorf("the partition was restored %d times, want %d", n, c.grants)
			}
			want := `{"Seen":{"a":1,"b":1,"c":1,"d":1}}`
			if got := newest(t, k, group+"-snapshots", "k"); got != want {
				t.Errorf("stored %s, want %s", got, want)
			}
		})
	}
}

// newest returns the newest committed value of a key.
func newest(t *testing.T, k *kafkatest.Cluster, topic, key string) (value string) {
	t.Helper()
	for _, r := range readAll(t, k, topic, kgo.ReadCommitted()) {
		if string(r.Key) == key {
			value = string(r.Value)
		}
	}
	return value
}

// A record without a key has one by Route; a record that Route declines is passed over, and its
// offset is committed.
func TestKafkaRoute(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	input := k.CreateTopic(t, kafkatest.UniqueName("input"), 2, nil)
	group, pr := input+"-flow", producer(t, k)
	var rs []*kgo.Record
	for i := range 20 { // two keys in each partition, the value says which
		rs = append(rs, &kgo.Record{Topic: input, Partition: int32(i % 2), Value: []byte(strconv.Itoa(i))})
	}
	if err := pr.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	conf := config(k.Addrs, group, input)
	conf.Route = func(r stream.Record) ([]byte, bool) {
		n, _ := strconv.Atoi(string(r.Value))
		return []byte("routed-" + strconv.Itoa(n%4)), n < 16
	}
	for range 2 { // the second time restored
		f := start(t, t.Context(), "routing", conf)
		await(f, 0, func(e stream.Restored) bool { return e.Partition.Partition == 0 })
		await(f, 0, func(e stream.Restored) bool { return e.Partition.Partition == 1 })
		awaitCommitted(t, k, group, input, 2, 10)
		if err := f.stop(); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[string]int{}
	for _, r := range readAll(t, k, group+"-snapshots", kgo.ReadCommitted()) {
		if !strings.HasPrefix(string(r.Key), "routed-") {
			continue
		}
		key := string(r.Key)
		n, _ := strconv.Atoi(strings.TrimPrefix(key, "routed-"))
		if r.Partition != int32(n%2) {
			t.Errorf("key %s is stored in partition %d, its records are in %d", key, r.Partition, n%2)
		}
		counts[key] = stored(t, k, group+"-snapshots")[key].N
	}
	if want := map[string]int{"routed-0": 4, "routed-1": 4, "routed-2": 4, "routed-3": 4}; !maps.Equal(counts, want) {
		t.Errorf("folded %v, want %v", counts, want)
	}
}
