package acceptance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	records = 20_000
	keys    = 499 // none of them has bad records alone
)

// spoiled writes the records, and returns how many good ones each key has.
func spoiled(t *testing.T, c *kafkatest.Cluster, in string) map[string]int {
	t.Helper()
	good := map[string]int{}
	var rs []*kgo.Record
	for i := range records {
		r := &kgo.Record{Topic: in, Key: fmt.Append(nil, "k", i%keys), Value: []byte("good")}
		if i%100 == 50 {
			r.Value = []byte("bad")
		} else {
			good[string(r.Key)]++
		}
		rs = append(rs, r)
	}
	if err := producer(t, c).ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return good
}

// wantGood reads the states, each of which has to be the number of its key's good records.
func wantGood(t *testing.T, c *kafkatest.Cluster, topic string, good map[string]int) {
	t.Helper()
	got := map[string]string{}
	for _, r := range readAll(t, c, topic, kgo.ReadCommitted()) {
		if !snapshot.Reserved(r.Key) {
			got[string(r.Key)] = string(r.Value)
		}
	}
	if len(got) != keys {
		t.Errorf("%d states, want %d", len(got), keys)
	}
	for key, n := range good {
		if want := fmt.Sprintf(`{"n":%d}`, n); got[key] != want {
			t.Errorf("I2: %s is %s, want %s", key, got[key], want)
		}
	}
}

// I7 and R29: a state with references and no Clone, and one record in a hundred that fails after State and is
// skipped. Of 20,000 records all are committed; before the states were copied none was after 163 s.
func TestKafkaFoldsThatFailWithoutClone(t *testing.T) {
	for _, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs, holdfast.Unfenced} {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t)
			in := c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
			good := spoiled(t, c, in)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			lost, committed := atomic.Int64{}, atomic.Int64{}
			conf := holdfast.Config[map[string]int]{
				Kafka: config(c.Addrs, "", "").Kafka, Group: in, Inputs: []string{in}, Guarantee: g,
				Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.JSON[map[string]int](),
				Commit:  holdfast.Commit{Interval: 200 * time.Millisecond},
				OnError: func(context.Context, *stream.RecordError) stream.Action { return stream.Skip },
				Fold: func(_ context.Context, k *holdfast.Key[map[string]int], r stream.Record) error {
					s, ok := k.State()
					if !ok {
						s = map[string]int{}
						k.Set(s)
					}
					s["n"]++ // in place: of a record that fails it must leave no trace
					if string(r.Value) == "bad" {
						return errors.New("bad record")
					}
					return nil
				},
				Hooks: []holdfast.Hooks{{
					Lost: func(stream.Released) { lost.Add(1) },
					Committed: func(e stream.Committed) {
						if committed.Store(e.Next); e.Next == records {
							cancel()
						}
					},
				}},
			}
			if g != holdfast.FencedOutputs {
				conf.Commit.Persist = 200 * time.Millisecond
			}
			f, err := holdfast.New(conf)
			if err == nil {
				err = f.Run(ctx)
			}
			if err != nil || committed.Load() != records {
				t.Fatalf("I7: %d of %d are committed, run: %v", committed.Load(), records, err)
			}
			if n := lost.Load(); n != 1 {
				t.Errorf("I7: the partition was dropped %d times, want once", n)
			}
			wantGood(t, c, in+"-snapshots", good)
		})
	}
}
