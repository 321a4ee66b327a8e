package limits

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

func init() { children = append(children, trial.Child()) }

// A flow's process is stopped, for longer than its transaction may last, in the moment in which it commits.
// If the broker's abort comes first the commit is refused, and the same effects go again; if the commit
// comes first it stands, and they do not. A pipe is in internal/eos, in
// TestKafkaTransactionTimeoutRacesTheCommit.
func TestKafkaTransactionTimeoutRacesAFlow(t *testing.T) {
	t.Parallel()
	// The broker looks for transactions that have timed out every half second, and not every ten.
	c := kafkatest.New(t, kafkatest.Options{Properties: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}})
	for name, guarantee := range map[string]holdfast.Guarantee{fencedState: holdfast.FencedState, fencedOutputs: holdfast.FencedOutputs} {
		for _, commitFirst := range []bool{false, true} {
			order := map[bool]string{true: "the commit comes first", false: "the timeout comes first"}[commitFirst]
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				race(t, c, guarantee, commitFirst)
			})
		}
	}
}

func race(t *testing.T, c *kafkatest.Cluster, guarantee holdfast.Guarantee, commitFirst bool) {
	f := trial.New(t, c, trial.App{
		Kind: trial.Flow, Guarantee: guarantee, TransactionTimeout: 3 * time.Second,
		Session: time.Minute, Rebalance: 2 * time.Minute, // it stays a member
	}, 1)
	m := f.Member("one")
	m.Start()
	m.Owns()
	f.Send(50)
	f.CaughtUp()
	var hold *wiretap.Fault
	if commitFirst {
		hold = m.Hold(wiretap.HoldResponse, wiretap.First(1, wiretap.All(wiretap.Keys(kmsg.EndTxn), wiretap.Committing)))
	} else {
		hold = m.HoldCommit()
	}
	mark := f.Mark()
	f.Send(50)
	f.Caught(hold, 1)
	m.Pause()
	want := "CompleteAbort"
	if commitFirst {
		awaitTimeout(f, f.App.TransactionTimeout)
		want = "CompleteCommit"
	}
	awaitEnd(f, f.TransactionalID(0), want)
	hold.Lift()
	m.Cont()
	f.Send(50)
	f.CaughtUp()
	if refused := f.Since(mark, trial.Kinds(holdfasttest.EventRefused)); !commitFirst && len(refused) == 0 {
		t.Error("the commit after the timeout was not refused")
	}
	f.Verify()
}

// awaitTimeout returns when the broker has timed out a transaction that began after the call and may last
// for d: any other that began before it and may last no longer is over as well.
func awaitTimeout(f *trial.Field, d time.Duration) {
	f.TB.Helper()
	id := kafkatest.UniqueName("probe")
	cl := f.Cluster.Client(f.TB, kgo.TransactionalID(id), kgo.TransactionTimeout(d), kgo.DefaultProduceTopic(f.Cluster.CreateTopic(f.TB, id, 1, nil)))
	if err := cl.BeginTransaction(); err != nil {
		f.TB.Fatal(err)
	}
	if err := cl.ProduceSync(f.TB.Context(), kgo.StringRecord("0")).FirstErr(); err != nil {
		f.TB.Fatal(err)
	}
	awaitEnd(f, id, "CompleteAbort")
}

// awaitEnd waits until the last transaction under an id has ended in this way.
func awaitEnd(f *trial.Field, id, state string) {
	f.TB.Helper()
	ctx, cancel := context.WithTimeout(f.TB.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ts, err := f.Admin.DescribeTransactions(ctx, id)
		if err == nil && ts[id].State == state {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.TB.Fatalf("the transaction under %s is %q and not %s: %v", id, ts[id].State, state, err)
		}
	}
}
