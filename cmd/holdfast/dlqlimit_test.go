package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/letters"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// limit sets a configuration of the topic that letters go back to, and waits until a leader goes by it.
func (d *deadLetters) limit(name, value string, refused *kgo.Record) {
	d.t.Helper()
	if _, err := kadm.NewClient(d.cl).AlterTopicConfigs(d.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, d.orders); err != nil {
		d.t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.brokers), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.TransactionalID(kafkatest.UniqueName("probe")))
	if err != nil {
		d.t.Fatal(err)
	}
	defer cl.Close()
	for took := true; took; {
		if err := cl.BeginTransaction(); err != nil {
			d.t.Fatal(err)
		}
		given := *refused
		given.Topic = d.orders
		took = cl.ProduceSync(d.t.Context(), &given).FirstErr() == nil
		if err := cl.EndTransaction(d.t.Context(), kgo.TryAbort); err != nil && took {
			d.t.Fatal(err)
		}
	}
}

// afterProduce does something once, after the first produce request was written.
type afterProduce struct {
	once sync.Once
	do   func()
}

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (a *afterProduce) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if kmsg.Key(key) == kmsg.Produce {
		a.once.Do(a.do)
	}
}

// replayed is how the records of a key came back, by the numbers in their values.
func (d *deadLetters) replayed() (numbers []string) {
	d.t.Helper()
	l := wire.Log{Client: d.cl, Topic: d.orders}
	_, end, _, err := l.Ends(d.t.Context())
	if err == nil {
		_, err = l.Read(d.t.Context(), wire.ReadOptions{To: end, Committed: true}, func(r *kgo.Record) error {
			numbers = append(numbers, string(r.Value[:4]))
			return nil
		})
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return numbers
}

// Two thousand letters go back to a topic that takes little in one batch: all of them, in their order, whether the
// limit was known or is lowered after the plan was made. One that is refused for its time is named, with that cause.
func TestKafkaReplayIntoASmallTopic(t *testing.T) {
	t.Parallel()
	brokers := strings.Join(kafkatest.Start(t).Addrs, ",")
	const n, old = 2000, 1234
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("%04d", i))
	}
	for name, c := range map[string]struct{ limited, spoiled bool }{
		"the limit is known": {true, false}, "it is lowered meanwhile": {false, false}, "one is refused for its time": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeadLetters(t, brokers)
			var rs []*kgo.Record
			for i := range n {
				at := d.when
				if i == old {
					at = at.Add(-2 * time.Hour)
				}
				m := dlq.New(stream.Record{Topic: d.orders, Offset: int64(i), Timestamp: at, Key: []byte{}, Value: fmt.Appendf(nil, "%04d-%s", i, strings.Repeat(fmt.Sprint(i), 30))},
					dlq.Cause{Topic: d.dead, TopicID: d.id, Attempt: 1})
				r := &kgo.Record{Topic: d.dead, Key: m.Key, Value: m.Value, Timestamp: m.Timestamp}
				for _, h := range m.Headers {
					r.Headers = append(r.Headers, kgo.RecordHeader(h))
				}
				rs = append(rs, r)
			}
			if err := d.cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			small := func() { d.limit("max.message.bytes", "2000", &kgo.Record{Value: make([]byte, 2000)}) }
			if c.limited {
				small()
			}
			k := kafka.Config{Brokers: strings.Split(brokers, ",")}
			if !c.limited { // between the look at the limit and the second letter
				k.Opts = []kgo.Opt{kgo.WithHooks(&afterProduce{do: small})}
			}
			replay := letters.Replay{Filter: letters.Filter{Kafka: k, Topic: d.dead, Patience: time.Minute, Newest: true}}
			plan, err := replay.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.spoiled {
				d.limit("message.timestamp.before.max.ms", "3600000", &kgo.Record{Timestamp: time.Now().Add(-2 * time.Hour)})
				sent, err := plan.Send(t.Context())
				if err != nil || len(sent.Refused) != 1 {
					t.Fatalf("I6: got %v, %+v, want one letter that is set aside", err, sent)
				} else if r := sent.Refused[0]; int(r.Letter.Offset) != old || !strings.Contains(r.Why, fmt.Sprintf("letter 0:%d", old)) ||
					!strings.Contains(r.Why, "message.timestamp.before.max.ms") || strings.Contains(r.Why, "max.message.bytes") {
					t.Errorf("I6: got %v, want letter 0:%d with the cause", r, old)
				}
				if got := d.replayed(); sent.Acknowledged != n-1 || sent.Doubtful+sent.Untried+len(sent.Next) != 0 ||
					!slices.Equal(got, slices.Delete(slices.Clone(want), old, old+1)) {
					t.Errorf("I4: %+v, and %d letters came back, want all but the one at fault, in order, and no doubt", sent, len(got))
				}
				return
			}
			if _, err := plan.Send(t.Context()); err != nil {
				t.Fatalf("I6: %v", err)
			}
			if got := d.replayed(); !slices.Equal(got, want) {
				t.Errorf("I4: %d letters came back, want %d, each once and in order", len(got), n)
			}
		})
	}
}
