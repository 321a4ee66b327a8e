package holdfast_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// count is the state of the tests' flows: what a reader can check against the input.
type count struct {
	N    int
	Sum  int64
	Last int64
}

func add(_ context.Context, k *holdfast.Key[count], r stream.Record) error {
	n, err := strconv.ParseInt(string(r.Value), 10, 64)
	if err != nil {
		return err
	}
	s, _ := k.State()
	s.N, s.Sum, s.Last = s.N+1, s.Sum+n, r.Offset
	k.Set(s)
	return nil
}

func TestKafkaFlowFoldsCommitsAndRestores(t *testing.T) {
	c := kafkatest.Start(t)
	input := c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	cl := c.Client(t)
	produce := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			r := &kgo.Record{Topic: input, Key: []byte(fmt.Sprint("k", i%3)), Value: []byte(strconv.Itoa(i))}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	produce(0, 10)
	run := func(until int64) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		flow, err := holdfast.New(holdfast.Config[count]{
			Kafka: kafka.Config{Brokers: c.Addrs}, Group: input + "-g", Inputs: []string{input},
			Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.JSON[count](), Fold: add,
			Commit: holdfast.Commit{Persist: 50 * time.Millisecond, Interval: 50 * time.Millisecond},
			Hooks: []holdfast.Hooks{{
				Committed: func(e stream.Committed) {
					t.Logf("committed %+v", e)
					if e.Next == until {
						cancel()
					}
				},
				Assigned: func(e stream.Assigned) { t.Logf("assigned %+v", e) },
				Restored: func(e stream.Restored) { t.Logf("restored %+v", e) },
				Refused:  func(e stream.Refused) { t.Logf("refused %+v", e) },
				Revoked:  func(e stream.Released) { t.Logf("revoked %+v", e) },
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := flow.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	run(10)
	produce(10, 20)
	run(20)
	got := map[string]count{}
	rd := c.Client(t, kgo.ConsumeTopics(input+"-g-snapshots"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := 0; n < 20; {
		fs := rd.PollFetches(deadline)
		if err := fs.Err(); err != nil {
			t.Fatal(err, got)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Key[0] == 0 {
				return
			}
			var s count
			if err := json.Unmarshal(r.Value, &s); err != nil {
				t.Fatal(err)
			}
			got[string(r.Key)] = s
		})
		n = got["k0"].N + got["k1"].N + got["k2"].N
	}
	want := map[string]count{"k0": {7, 63, 18}, "k1": {7, 70, 19}, "k2": {6, 57, 17}}
	for k, w := range want {
		if got[k] != w {
			t.Errorf("%s: %+v, want %+v", k, got[k], w)
		}
	}
}
