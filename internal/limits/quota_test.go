package limits

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	quotaRate    = 40_000 // bytes a second that a member may produce
	quotaRecords = 200    // that wait for it
	quotaPad     = 2000   // bytes that come of each
	quotaBatch   = 65536  // what a topic takes at once: more than that is several requests
	quotaTimeout = 3 * time.Second
)

// The brokers let a member produce less than it has for one batch, within the time of a transaction. What ran
// out of its time comes again smaller, until it fits: all is committed, and the throttle is told.
//
// Public case B9.
func TestKafkaProduceQuota(t *testing.T) {
	t.Parallel()
	// The brokers count over two seconds, in place of eleven: they let little pass before they throttle.
	c := kafkatest.New(t, kafkatest.Options{Properties: map[string]string{"quota.window.num": "2"}})
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			underQuota(t, c, kind)
		})
	}
}

func underQuota(t *testing.T, c *kafkatest.Cluster, kind string) {
	b := newBench(t, kafka.Config{Brokers: c.Addrs}, kind)
	for _, topic := range []string{b.output, b.progress()} {
		set := kadm.AlterConfig{Name: "max.message.bytes", Value: kadm.StringPtr(fmt.Sprint(quotaBatch))}
		if _, err := b.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{set}, topic); err != nil {
			t.Fatal(err)
		}
	}
	limited := kafkatest.UniqueName("limited")
	b.quota(limited, "producer_byte_rate", quotaRate)
	b.kafka.Opts = append(b.kafka.Opts, kgo.ClientID(limited))
	b.timeout, b.codec = quotaTimeout, padded{}
	if kind != fencedState { // whose outputs are beside the transaction
		b.codec, b.pad = nil, quotaPad
	}
	told := &told{}
	b.hooks = append(b.hooks, told.hooks())
	var rs []*kgo.Record
	for i := range quotaRecords {
		rs = append(rs, &kgo.Record{Topic: b.input, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "%d", i)})
	}
	if err := b.cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r := b.start()
	r.committed(quotaRecords)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	told.judge(t)
	b.quota(limited, "consumer_byte_rate", 4*quotaRate) // what is read back is held up, too
	b.send(1)
	r = b.start()
	r.committed(quotaRecords + 1)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	holdfasttest.Verify(t, b.model(), b.members...)
}

// quota sets a bound of the clients of an id, in bytes a second.
func (b *bench) quota(id, key string, rate float64) {
	b.t.Helper()
	entry := kadm.AlterClientQuotaEntry{
		Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &id}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: key, Value: rate}},
	}
	altered, err := b.admin.AlterClientQuotas(b.t.Context(), []kadm.AlterClientQuotaEntry{entry})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := altered[0].Err; err != nil {
		b.t.Fatal(err)
	}
}

// told is what the hooks of a member have told.
type told struct {
	mu        sync.Mutex
	slow      int // attempts that ran out of time
	largest   int // records of a transaction that was committed
	committed int
	throttled time.Duration
}

func (o *told) hooks() holdfast.Hooks {
	return holdfast.Hooks{
		Committed: func(e stream.Committed) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.committed++
			o.largest = max(o.largest, e.Writes+e.Outputs)
		},
		Refused: func(e stream.Refused) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if e.Cause == "slow" {
				o.slow++
			}
		},
		Throttled: func(e stream.Throttled) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.throttled += e.For
		},
	}
}

func (o *told) judge(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	t.Logf("%d transactions, of %d records at most, %d ran out of time; throttled for %v", o.committed, o.largest, o.slow, o.throttled)
	if o.slow == 0 {
		t.Error("no attempt ran out of time: the quota is too large for what is tested")
	}
	if o.largest > quotaRecords*3/4 {
		t.Errorf("I7: a transaction of %d records was committed, of %d that were too many", o.largest, quotaRecords)
	}
	if o.throttled == 0 {
		t.Error("I6: no hook has told of the throttle")
	}
}

// padded writes a state as many bytes that do not compress.
type padded struct{}

func (padded) Append(dst []byte, s tally) ([]byte, error) {
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(s.N)), s.Chain)
	random := rand.New(rand.NewPCG(s.Chain, uint64(s.N)))
	for range quotaPad {
		dst = append(dst, byte(random.Uint32()))
	}
	return dst, nil
}

func (padded) Decode(src []byte) (tally, error) {
	if len(src) < 16 {
		return tally{}, io.ErrUnexpectedEOF
	}
	return tally{N: int(binary.BigEndian.Uint64(src)), Chain: binary.BigEndian.Uint64(src[8:])}, nil
}
