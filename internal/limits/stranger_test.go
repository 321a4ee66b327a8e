package limits

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/internal/hooklog"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// component is a flow or a pipe.
type component interface {
	Run(context.Context) error
	Check(context.Context) (holdfast.Report, error)
}

// strangers builds a flow and a pipe over an input, with hooks.
var strangers = map[string]func(k kafka.Config, group, input, output string, h holdfast.Hooks) (component, error){
	"flow": func(k kafka.Config, group, input, _ string, h holdfast.Hooks) (component, error) {
		return holdfast.New(holdfast.Config[string]{Kafka: k, Group: group, Inputs: []string{input}, Codec: codec.String(), Hooks: []holdfast.Hooks{h},
			Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Commit: holdfast.Commit{Interval: 100 * time.Millisecond, Persist: 100 * time.Millisecond},
			Fold: func(_ context.Context, key *holdfast.Key[string], r stream.Record) error {
				key.Set(string(r.Value))
				return nil
			}})
	},
	"pipe": func(k kafka.Config, group, input, output string, h holdfast.Hooks) (component, error) {
		return pipe.New(pipe.Config{Kafka: k, Group: group, Inputs: []string{input}, Outputs: []string{output}, Hooks: []holdfast.Hooks{h},
			Create: &holdfast.TopicConfig{}, Func: func(_ context.Context, r stream.Record, out *pipe.Out) error {
				out.Send(stream.Message{Topic: output, Key: r.Key, Value: r.Value})
				return nil
			}})
	},
}

// A stranger's transaction is open on the input, with a record of somebody else behind it. The component and the
// check name it; when it is committed the component goes on, with both records.
func TestKafkaStrangerOnTheInput(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	k := kafka.Config{Brokers: c.Addrs}
	for name, build := range strangers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input, output, group := kafkatest.UniqueName("payments"), kafkatest.UniqueName("copies"), kafkatest.UniqueName("waits")
			c.CreateTopic(t, input, 1, nil)
			c.CreateTopic(t, output, 1, nil)
			done := make(chan struct{})
			var ended error
			log := hooklog.New(t, hooklog.Member{Name: name, Done: done, Err: func() error { return ended }, Patience: patience})
			m, err := build(k, group, input, output, log.Hooks())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { defer close(done); ended = m.Run(ctx) }()
			t.Cleanup(func() { cancel(); <-done })
			hooklog.Await(log, 0, func(stream.Restored) bool { return true })

			id := kafkatest.UniqueName("stranger")
			stranger, other := client(t, k, kgo.TransactionalID(id)), client(t, k)
			began := time.Now()
			if err := stranger.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for _, cl := range []*kgo.Client{stranger, other} {
				if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: input, Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			e := hooklog.Await(log, 0, func(stream.InputStalled) bool { return true })
			if e.TransactionalID != id || e.ProducerID < 0 || e.Partition.Topic != input || e.Offset != 0 || e.HighWatermark != 2 || e.Over ||
				e.Since.Sub(began).Abs() > time.Minute || e.Timeout != time.Minute || !strings.Contains(e.Diagnosis, "open since") {
				t.Errorf("I6: told %+v", e)
			}
			report, err := m.Check(t.Context())
			if err != nil || !strings.Contains(strings.Join(strings.Fields(report.String()), " "), `readers of `+input+`/0 with read_committed stop at offset 0 of 2: transactional id "`+id+`"`) {
				t.Errorf("I6: the check says %v\n%s", err, report)
			}
			if err := stranger.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
			hooklog.Await(log, 0, func(e stream.InputStalled) bool { return e.Over })
			hooklog.Await(log, 0, func(e stream.Committed) bool { return e.Next >= 2 })
		})
	}
}

// client is one of a stranger.
func client(t *testing.T, k kafka.Config, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := k.Client(append(opts, kgo.TransactionTimeout(time.Minute), kgo.ProducerLinger(0))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}
