package holdfasttest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// productHistory is made by the product: the schedule runs with every rule in force, when nothing may be
// found, and with the named rules switched off.
type productHistory struct {
	name     string
	off      []rule.Name
	setup    func(r *run, off bool)
	want     string
	schedule func(r *run, ctx context.Context, off bool)
}

var productHistories = []productHistory{
	{name: "holds", off: []rule.Name{rule.Holds}, want: "I1", schedule: unsaved},
	{name: "applied skip", off: []rule.Name{rule.AppliedSkip}, want: "I2 I4", schedule: replayAhead},
	{name: "two-write delete", off: []rule.Name{rule.TwoWriteDelete}, want: "I2 I4", schedule: deletedAhead},
	{name: "outputs first", off: []rule.Name{rule.OutputsFirst}, want: "I4", schedule: outputsHeld},
	{name: "fenced binding and takeover", off: []rule.Name{rule.FencedBinding, rule.Takeover}, setup: silent, want: "I1 I2 I3", schedule: staleCommit},
	{name: "read-back", off: []rule.Name{rule.ReadBack}, setup: silent, want: "I3", schedule: answerLost},
	{name: "restore bound", off: []rule.Name{rule.RestoreBound, rule.SecondWitness}, want: "I2 I4", schedule: foreignOpen},
	{name: "no fence", setup: unfenced, want: "I1 I2", schedule: staleCommit},
	{name: "outputs inside", off: []rule.Name{rule.OutputsInside}, setup: whole, want: "I4", schedule: outputsBeside},
	{name: "read-back with outputs", off: []rule.Name{rule.ReadBack}, setup: whole, want: "I3 I4", schedule: answerLost},
	{name: "fenced binding and takeover with outputs", off: []rule.Name{rule.FencedBinding, rule.Takeover}, setup: whole, want: "I1 I2 I3 I4", schedule: staleCommit},
	{name: "pipe outputs inside", off: []rule.Name{rule.OutputsInside}, setup: piped, want: "I4", schedule: outputsBeside},
	{name: "pipe read-back", off: []rule.Name{rule.ReadBack}, setup: piped, want: "I3 I4", schedule: answerLost},
}

// silent has the fold emit nothing: outputs have a producer of their own, whose initialisation and wait
// for the group a schedule would meet.
func silent(r *run, _ bool) { r.conf.Fold, r.conf.Outputs = countdown(""), nil }

func unfenced(r *run, off bool) {
	silent(r, off)
	if off {
		r.conf.Guarantee = holdfast.Unfenced
	}
}

// whole makes outputs part of the transaction.
func whole(r *run, _ bool) {
	r.conf.Guarantee = holdfast.FencedOutputs
	r.conf.Commit.Persist = 0
}

// piped has a pipe instead of the flow, which sends each record but "0now" to the output.
func piped(r *run, _ bool) {
	c := r.conf
	r.pipe = &pipe.Config{
		Kafka: c.Kafka, Group: c.Group, Inputs: c.Inputs, Outputs: c.Outputs, Create: &holdfast.TopicConfig{},
		Func: func(_ context.Context, rec stream.Record, out *pipe.Out) error {
			if string(rec.Value) != "0now" {
				out.Forward(c.Outputs[0])
			}
			return nil
		},
		Member: c.Member, Commit: holdfast.Commit{Interval: c.Commit.Interval, RevokeBudget: c.Commit.RevokeBudget},
	}
}

// TestProductHistories has a few of the histories on the embedded broker, as TestKafkaProductHistories has
// more of them on real Kafka; nightly both have all. What takes long are members that are cut off, and wait.
func TestProductHistories(t *testing.T) {
	t.Parallel()
	testProductHistories(t, few(productHistories, 3), func(t *testing.T) kafka.Config { return Broker(t) })
}

// few returns the first n of a list, and all of it nightly.
func few[T any](list []T, n int) []T {
	if os.Getenv("HOLDFAST_NIGHTLY") == "1" {
		return list
	}
	return list[:n]
}

func TestKafkaProductHistories(t *testing.T) {
	t.Parallel()
	testProductHistories(t, few(productHistories, 7), func(t *testing.T) kafka.Config { return kafka.Config{Brokers: kafkatest.Start(t).Addrs} })
}

func testProductHistories(t *testing.T, histories []productHistory, broker func(*testing.T) kafka.Config) {
	for _, c := range histories {
		for _, off := range []bool{false, true} {
			name := c.name + ", in force"
			if off {
				name = c.name + ", switched off"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRun(t, broker(t))
				ctx, want := t.Context(), ""
				if off {
					ctx, want = rule.Without(ctx, c.off...), c.want
				}
				if c.setup != nil {
					c.setup(r, off)
				}
				c.schedule(r, ctx, off)
				expect(t, r.check(), want)
			})
		}
	}
}

// unsaved commits all the time while states wait for their snapshots.
func unsaved(r *run, ctx context.Context, off bool) {
	m := r.start(ctx, "one")
	r.send("a 1", "b 2", "a 3")
	m.await(EventFolded, 2, 1)
	if off {
		m.await(EventCommitted, 3, 1)
	}
	m.stop()
}

// replayAhead kills an owner whose snapshot of one key is ahead of the offset that another key holds back.
func replayAhead(r *run, ctx context.Context, _ bool) {
	first := r.start(r.t.Context(), "one")
	first.await(EventCommitted, 0, 1)
	r.send("held 5", "ahead 7now")
	first.await(EventCommitted, 0, 2)
	first.kill()
	next := r.start(ctx, "two")
	r.send("ahead 1")
	next.await(EventFolded, 2, 1)
	next.stop()
}

// deletedAhead kills an owner that has deleted a key ahead of the offset that another key holds back.
func deletedAhead(r *run, ctx context.Context, _ bool) {
	first := r.start(ctx, "one")
	r.send("gone 1now")
	first.await(EventCommitted, 1, 1)
	r.send("held 5", "gone -1now")
	first.await(EventCommitted, 1, 2)
	first.kill()
	next := r.start(r.t.Context(), "two")
	r.send("held 1")
	next.await(EventFolded, 3, 1)
	next.stop()
}

// outputsHeld kills an owner whose output has not arrived.
func outputsHeld(r *run, ctx context.Context, off bool) {
	first := r.start(ctx, "one")
	first.await(EventRestored, 0, 1)
	hold := first.hold(r.producing(r.output()))
	r.send("a 1now")
	r.caught(hold)
	if off {
		first.await(EventCommitted, 1, 1)
	}
	first.kill()
	next := r.start(ctx, "two")
	r.send("a 2")
	next.await(EventFolded, 1, 1)
	next.stop()
}

// outputsBeside kills an owner whose transaction has not ended, with its output in the log. The takeover
// aborts one that is in the transaction.
func outputsBeside(r *run, ctx context.Context, _ bool) {
	first := r.start(ctx, "one")
	first.await(EventRestored, 0, 1)
	hold := first.hold(wiretap.Committing)
	r.send("a 1now")
	r.caught(hold)
	r.awaitOutput() // it is in the log, whether in the transaction or beside it
	first.kill()
	next := r.start(ctx, "two")
	r.send("a 2now")
	next.await(EventCommitted, 2, 1)
	next.stop()
}

// staleCommit has an owner that was expelled, and does not know it, commit when its successor already
// has: its fold hangs until then.
func staleCommit(r *run, ctx context.Context, off bool) {
	zero := r.start(ctx, "zero") // so that the others have nothing to commit before they fold
	zero.await(EventRestored, 0, 1)
	zero.stop()
	wake := make(chan struct{})
	stale := r.start(ctx, "stale", func(c *holdfast.Config[tally]) {
		c.Commit.Interval = time.Hour
		fold := c.Fold
		c.Fold = func(ctx context.Context, k *holdfast.Key[tally], rec stream.Record) error {
			if string(rec.Value) == "0now" {
				<-wake
			}
			return fold(ctx, k, rec)
		}
	})
	r.send("a 1", "a 2", "a 0now")
	stale.await(EventFolded, 2, 1)
	group := stale.hold(wiretap.Keys(kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.LeaveGroup))
	fetch := stale.hold(wiretap.Keys(kmsg.Fetch))
	r.caught(group)
	r.caught(fetch)
	next := r.start(ctx, "next")
	r.send("a 3now")
	next.await(EventCommitted, 4, 1)
	close(wake)
	switch {
	case r.conf.Guarantee == holdfast.Unfenced: // its snapshot lands, and its offset is refused
		stale.await(EventLost, 0, 1)
	case off:
		stale.await(EventCommitted, 3, 1)
	default:
		stale.await(EventRefused, 0, 1)
	}
	group.Lift()
	fetch.Lift()
	stale.stop()
	r.send("b 4now")
	next.await(EventCommitted, 5, 1)
	next.stop()
}

// answerLost loses the answer to a commit, and every further request to end it.
func answerLost(r *run, ctx context.Context, _ bool) {
	m := r.start(ctx, "one")
	m.await(EventRestored, 0, 1)
	first := m.tap.Fault(wiretap.CutOnResponse, wiretap.First(1, wiretap.Committing))
	again := m.tap.Fault(wiretap.CutOnRequest, func(q wiretap.Request) bool {
		return wiretap.Committing(q) && len(first.Caught()) > 0
	})
	init := m.hold(wiretap.Keys(kmsg.InitProducerID))
	r.send("a 1now")
	r.caught(init)
	again.Lift()
	init.Lift()
	m.await(EventCommitted, 1, 1)
	m.stop()
}

// foreignOpen has a transaction of somebody else open in the snapshot topic while an owner commits and
// another one restores.
func foreignOpen(r *run, ctx context.Context, off bool) {
	first := r.start(r.t.Context(), "one")
	first.await(EventRestored, 0, 1)
	foreign := r.openForeign()
	r.send("a 1now")
	first.await(EventCommitted, 1, 1)
	first.stop()
	next := r.start(ctx, "two")
	if off {
		next.await(EventRestored, 1, 1)
	} else {
		next.await(EventAssigned, 1, 1)
	}
	if err := foreign.EndTransaction(r.t.Context(), kgo.TryAbort); err != nil {
		r.t.Fatal(err)
	}
	r.send("a 2now")
	next.await(EventCommitted, 2, 1)
	next.stop()
}

func (r *run) openForeign() *kgo.Client {
	r.t.Helper()
	cl, err := r.k.Client(kgo.TransactionalID(r.conf.Group+"-foreign"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		r.t.Fatal(err)
	}
	err = cl.ProduceSync(r.t.Context(), &kgo.Record{Topic: r.progress(), Key: []byte("foreign"), Value: []byte("never committed")}).FirstErr()
	if err != nil {
		r.t.Fatal(err)
	}
	return cl
}
