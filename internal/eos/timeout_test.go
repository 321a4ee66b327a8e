package eos

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// A process is stopped, for longer than its transaction may last, in the moment in which it commits. If
// the broker's abort comes first the commit is refused, and the batch goes again. If the commit comes
// first it stands, and the batch does not.
// Public case B6.
func TestKafkaTransactionTimeoutRacesTheCommit(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{Properties: quickTimeouts})
	start := func(t *testing.T) (*bench, *member) {
		b := newBench(t, c, 1)
		b.conf.TransactionTimeout, b.conf.Session = 3*time.Second, 2*time.Minute // it stays a member
		m := b.member("copier")
		b.seed(100)
		b.live.await(100)
		return b, m
	}
	stop := func(b *bench, m *member, hold *wiretap.Fault) (aborted int) {
		b.t.Helper()
		hold.Lift()
		if err := m.proc.Cont(); err != nil {
			b.t.Fatal(err)
		}
		b.live.await(200)
		b.seed(300)
		b.live.await(300)
		m.stop()
		return b.check()
	}
	t.Run("the timeout comes first", func(t *testing.T) {
		b, m := start(t)
		hold := m.holdCommit()
		b.seed(200)
		caught(t, hold, 1)
		if err := m.proc.Pause(); err != nil {
			t.Fatal(err)
		}
		b.awaitEnd(b.idOf(0), "CompleteAbort")
		if aborted := stop(b, m, hold); aborted == 0 {
			t.Error("no record was aborted")
		}
		if m.refused.Load() == 0 {
			t.Error("the commit after the timeout was not refused")
		}
	})
	t.Run("the commit comes first", func(t *testing.T) {
		b, m := start(t)
		hold := m.tap.Fault(wiretap.HoldResponse, wiretap.First(1, wiretap.All(wiretap.Keys(kmsg.EndTxn), wiretap.Committing)))
		t.Cleanup(hold.Lift)
		b.seed(200)
		caught(t, hold, 1)
		if err := m.proc.Pause(); err != nil {
			t.Fatal(err)
		}
		b.awaitTimeout(b.conf.TransactionTimeout)
		if aborted := stop(b, m, hold); aborted > 0 {
			t.Errorf("%d records were aborted, and the commit had come first", aborted)
		}
	})
}

// awaitTimeout returns when the broker has timed out a transaction that began after the call and may
// last for d: any other that began before it and may last no longer is over as well.
func (b *bench) awaitTimeout(d time.Duration) {
	b.t.Helper()
	id := kafkatest.UniqueName("probe")
	topic := b.c.CreateTopic(b.t, id, 1, nil)
	cl := b.c.Client(b.t, kgo.TransactionalID(id), kgo.TransactionTimeout(d), kgo.DefaultProduceTopic(topic))
	if err := cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	if err := cl.ProduceSync(b.t.Context(), kgo.StringRecord("0")).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
	b.awaitEnd(id, "CompleteAbort")
}

// awaitEnd waits until the last transaction under an id has ended in this way.
func (b *bench) awaitEnd(id, state string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	admin := kadm.NewClient(b.c.Client(b.t))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ts, err := admin.DescribeTransactions(ctx, id)
		if err == nil && ts[id].State == state {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("the transaction under %s is %q and not %s: %v", id, ts[id].State, state, err)
		}
	}
}
