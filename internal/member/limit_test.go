package member_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/stream"
)

// I6 and R34: a limit that is known is used. No batch for a topic is larger than it takes, of outputs and letters,
// whether they go in a transaction or beside it: a broker that refuses one again and again would stop the flow at each
// start.
func TestBatchesAreWithinTheLimit(t *testing.T) {
	t.Parallel()
	const limit, outputs = 5000, 300
	for _, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs, holdfast.Unfenced} {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			small := map[string]*string{"max.message.bytes": kadm.StringPtr(fmt.Sprint(limit))}
			p.create("out", small)
			p.create("dead", small)
			p.values("a", "1", "b", "1", "bad", "1")
			var mu sync.Mutex
			largest := 0
			p.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
				p.cluster.KeepControl()
				mu.Lock()
				defer mu.Unlock()
				for _, topic := range req.(*kmsg.ProduceRequest).Topics {
					for _, name := range []string{"out", "dead"} {
						if topic.Topic != name && topic.TopicID != p.cluster.TopicInfo(name).TopicID {
							continue
						}
						for _, part := range topic.Partitions {
							largest = max(largest, len(part.Records))
						}
					}
				}
				return nil, nil, false
			})
			c := p.config()
			if c.Guarantee = g; g == holdfast.FencedOutputs {
				c.Commit.Persist = 0
			}
			c.Kafka.Opts = []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}
			c.Outputs, c.DeadLetters = []string{"out"}, &dlq.Policy{Topic: "dead"}
			c.OnError = func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }
			c.Fold = func(_ context.Context, k *holdfast.Key[int], r stream.Record) error {
				if string(r.Key) == "bad" {
					return fmt.Errorf("no")
				}
				k.Set(1)
				for i := range outputs {
					k.Emit(stream.Message{Topic: "out", Key: r.Key, Value: fmt.Appendf(nil, "%0100d", i)})
				}
				return nil
			}
			p.must(until(p, c, 3))
			mu.Lock()
			defer mu.Unlock()
			if n := largest; n > limit || n == 0 {
				t.Errorf("I6: a batch of %d bytes was sent to a topic that takes %d", n, limit)
			}
		})
	}
}
