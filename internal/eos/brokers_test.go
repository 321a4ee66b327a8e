package eos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// end is a way in which a broker ends.
type end func(context.Context, *kafkatest.Broker) error

func kill(_ context.Context, b *kafkatest.Broker) error       { return b.Kill() }
func shutDown(ctx context.Context, b *kafkatest.Broker) error { return b.Stop(ctx) }

// bounceBrokers runs copiers and bounces one broker after the other, each in its way. A broker goes when
// it has carried out a request of a transaction whose answer is still on its way, so that every bounce
// leaves a copier in the dark.
func bounceBrokers(t *testing.T, c *kafkatest.Cluster, engine string, ends ...end) {
	s := sizes()
	b := newBench(t, c, s.partitions)
	b.conf.Engine = engine
	var ms []*member
	for i := range s.copiers {
		ms = append(ms, b.member(fmt.Sprint("copier ", i+1)))
	}
	b.seed(s.records / 5)
	b.live.await(s.records / 5)
	portion := (s.records - b.seeded) / (len(ends) + 1)
	for i, end := range ends {
		b.bounce(c.Brokers[i], ms, portion, end)
	}
	b.seed(s.records)
	b.live.await(s.records)
	for _, m := range ms {
		m.stop()
	}
	aborted := b.check()
	readBack := len(b.log.since(0, func(e entry) bool { return e.is("committed") && e.has("read back true") }))
	refused := len(b.log.since(0, func(e entry) bool { return e.is("refused") }))
	t.Logf("%d records were aborted; %d outcomes were unknown and read back, %d transactions refused", aborted, readBack, refused)
}

// bounce ends a broker in the midst of a portion and starts it again.
func (b *bench) bounce(broker *kafkatest.Broker, ms []*member, portion int, end end) {
	b.t.Helper()
	inTransaction := wiretap.Keys(kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn)
	held := make(chan struct{}, 1)
	var holds []*wiretap.Fault
	for _, m := range ms {
		f := m.tap.Proxy(broker.Addr).Fault(wiretap.HoldResponse, func(r wiretap.Request) bool {
			if !inTransaction(r) {
				return false
			}
			select {
			case held <- struct{}{}:
			default:
			}
			return true
		})
		b.t.Cleanup(f.Lift)
		holds = append(holds, f)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*patience)
	defer cancel()
	// The copiers wait for this broker's answers, so that the portion is not through when it goes.
	b.seed(b.seeded + portion)
	select {
	case <-held:
	case <-ctx.Done():
		b.t.Fatalf("broker %d: no request of a transaction within %v", broker.ID, 2*patience)
	}
	if err := end(ctx, broker); err != nil {
		b.t.Fatal(err)
	}
	for _, f := range holds {
		f.Lift()
	}
	if err := broker.Restart(ctx); err != nil {
		b.t.Fatal(err)
	}
	b.live.await(b.seeded)
	b.awaitInSync(ctx)
}

// awaitInSync waits until every replica of every topic is in sync: with one behind, the next broker
// that goes would leave partitions without a leader that may write.
func (b *bench) awaitInSync(ctx context.Context) {
	b.t.Helper()
	admin := kadm.NewClient(b.c.Client(b.t))
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		behind, err := outOfSync(ctx, admin)
		if err == nil && behind == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("replicas are out of sync: %s (%v)", behind, err)
		}
	}
}

func outOfSync(ctx context.Context, admin *kadm.Client) (behind string, err error) {
	m, err := admin.Metadata(ctx)
	if err != nil {
		return "", err
	}
	for _, topic := range m.Topics {
		for _, p := range topic.Partitions {
			if p.Err != nil || len(p.ISR) < len(p.Replicas) {
				return fmt.Sprintf("%s/%d has %v of %v (%v)", p.Topic, p.Partition, p.ISR, p.Replicas, p.Err), nil
			}
		}
	}
	return "", nil
}
