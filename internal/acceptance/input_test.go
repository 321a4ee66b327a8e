package acceptance

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

// The input was deleted and made again while the flow was down, with more records than were folded
// before: by offsets alone they would be taken for the rest of the old ones.
func TestKafkaInputRecreatedWhileStopped(t *testing.T) {
	t.Parallel()
	b := newBench(t, holdfast.FencedState)
	b.fold10()
	b.recreate(b.input, "delete")
	produce(t, producer(t, b.k), b.input, 0, 3, 100, 120)
	b.reset(10) // a broker forgets the offsets with the topic, an operator may put them back
	err := start(t, t.Context(), "next", b.conf).failure()
	named(t, err, holdfast.ErrInputChanged, "created again", "Rebuild")
	located(t, err, stream.Partition{Topic: b.input}, -1, "")

	b.conf.Start.Disagreement = holdfast.Rebuild
	f := start(t, t.Context(), "rebuilding", b.conf)
	f.committedTo(0, 20)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	b.verify(0, 20)
	b.again()
}

// The input is deleted and made again under a running flow: the flow stops and says so.
func TestKafkaInputRecreatedWhileRunning(t *testing.T) {
	t.Parallel()
	b := newBench(t, holdfast.FencedState)
	produce(t, b.pr, b.input, 0, 3, 0, 10)
	f := start(t, t.Context(), "running", b.conf)
	f.committedTo(0, 10)
	b.recreate(b.input, "delete")
	produce(t, producer(t, b.k), b.input, 0, 3, 100, 120)
	err := f.failure()
	named(t, err, holdfast.ErrInputChanged)
	for _, s := range stored(t, b.k, b.snapshots()) {
		if s.Last >= 10 {
			t.Errorf("stored %+v: a record of the other topic was folded", s)
		}
	}
}

// widen adds partitions to a topic and waits until the broker has them.
func widen(t *testing.T, admin *kadm.Client, topic string, partitions int) error {
	t.Helper()
	rs, err := admin.UpdatePartitions(t.Context(), partitions, topic)
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		return err
	}
	return awaitPartitions(t, admin, topic, partitions)
}

// awaitPartitions waits until the broker knows what the controller has answered already.
func awaitPartitions(t *testing.T, admin *kadm.Client, topic string, partitions int) error {
	t.Helper()
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		ts, err := admin.ListTopics(t.Context(), topic)
		if err != nil || len(ts[topic].Partitions) == partitions {
			return err
		}
	}
}

func (b *bench) widen(topic string, partitions int) {
	b.t.Helper()
	if err := widen(b.t, b.admin, topic, partitions); err != nil {
		b.t.Fatal(err)
	}
}

// Timestamps are the producer's, whatever its clock said: they change nothing about order, offsets or
// commits, and reach the fold as they are, as far as the client can tell them.
func TestKafkaOddTimestamps(t *testing.T) {
	t.Parallel()
	b := newBench(t, holdfast.FencedState)
	b.alter(b.input, "message.timestamp.after.max.ms", "9223372036854775807")
	times := []time.Time{
		time.UnixMilli(0), time.UnixMilli(1), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC), time.UnixMilli(1 << 60), time.UnixMilli(-1),
	}
	for i, at := range times {
		r := &kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte(strconv.Itoa(i)), Timestamp: at}
		if err := b.pr.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatalf("timestamp %v: %v", at, err)
		}
	}
	var mu sync.Mutex
	var seen []int64
	b.conf.Fold = holdfast.Chain(fold, func(_ context.Context, _ *holdfast.Key[tally], r stream.Record) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Timestamp.UnixMilli())
		return nil
	})
	f := start(t, t.Context(), "folding", b.conf)
	f.committedTo(0, int64(len(times)))
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	b.verify(0, int64(len(times)))
	if len(seen) != len(times) {
		t.Fatalf("the fold saw %d records, want each once", len(seen))
	}
	for i, at := range times {
		if at.Year() < 2262 && seen[i] != at.UnixMilli() {
			t.Errorf("the fold saw time %d, written was %d", seen[i], at.UnixMilli())
		}
	}
	b.conf.Fold = fold
	b.again()
}

func (b *bench) alter(topic, name, value string) {
	b.t.Helper()
	rs, err := b.admin.AlterTopicConfigs(b.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err == nil {
		err = rs[0].Err
	}
	if err == nil {
		err = awaitConfig(b.t, b.admin, topic, map[string]*string{name: &value})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// An empty value is not a tombstone, and an empty key is a key.
func TestKafkaEmptyValuesAndKeys(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	group, pr := input+"-flow", producer(t, k)
	rs := []*kgo.Record{
		{Topic: input, Key: []byte("empty"), Value: []byte{}}, {Topic: input, Key: []byte("null")},
		{Topic: input, Key: []byte{}, Value: []byte("x")}, {Topic: input, Key: []byte("\x00progress"), Value: []byte("y")},
	}
	if err := pr.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	conf := texts(k, group, input, holdfast.StopOnPersistError)
	conf.Fold = func(_ context.Context, key *holdfast.Key[string], r stream.Record) error {
		key.Set(fmt.Sprintf("%t %q", r.Value == nil, r.Value))
		return nil
	}
	f := start(t, t.Context(), "folding", conf)
	f.committedTo(0, 4)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range readAll(t, k, group+"-snapshots", kgo.ReadCommitted()) {
		if string(r.Key) != "\x00progress" {
			got[string(r.Key)] = string(r.Value)
		}
	}
	want := map[string]string{
		"empty": `"false \"\""`, "null": `"true \"\""`, "": `"false \"x\""`, "\x00\x00progress": `"false \"y\""`, // escaped: it is not ours
	}
	if !maps.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
	f = start(t, t.Context(), "again", conf)
	if e := await(f, 0, any1[stream.Restored]); e.Keys != 4 || e.Start != 4 {
		t.Errorf("restored %+v, want 4 keys", e)
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
}
