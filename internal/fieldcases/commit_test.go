package fieldcases

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// refusals fails the test for each refused transaction of a member.
func refusals(t *testing.T, r *run) {
	t.Helper()
	for _, e := range all[stream.Refused](r) {
		t.Errorf("%s was refused a transaction: %s: %v", r.name, e.Cause, e.Err)
	}
}

// Public case B3: a transaction is aborted for a record that the broker does not take, so that its input
// is read again from the committed offset; in that moment the input moves to another leader. No record
// is passed over.
func TestCaseB3LeaderMovesDuringTheAbort(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, kfake.NumBrokers(3))
	l.guarantee = holdfast.FencedOutputs
	var moves atomic.Int32
	l.tune = func(c *holdfast.Config[tally]) {
		c.OnError = func(context.Context, *stream.RecordError) stream.Action { return stream.Retry }
		c.Hooks = []holdfast.Hooks{{Refused: func(stream.Refused) {
			if err := l.cluster.MoveTopicPartition(input, 0, moves.Add(1)%3); err != nil {
				t.Error(err)
			}
		}}}
	}
	r := l.start("one", l.config())
	const rounds = 10
	for range rounds {
		fault := l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: output, Err: kerr.InvalidRecord})
		l.write(0, 7)
		l.wait(fault, 1)
		l.reach()
	}
	l.finished()
	if n := len(all[stream.Refused](r)); n < rounds || moves.Load() < rounds {
		t.Errorf("%d refusals and %d moves in %d rounds", n, moves.Load(), rounds)
	}
}

// Public case B5: transactions follow each other as fast as they can over many partitions, each with an
// epoch of its own. None is refused for the epoch of the one before. That there is no pause between them is
// shown in internal/virtual, where a machine that is busy is none.
func TestCaseB5TransactionsWithoutAPause(t *testing.T) {
	t.Parallel()
	l := newLab(t, 8)
	l.guarantee = holdfast.FencedOutputs
	l.tune = func(c *holdfast.Config[tally]) { c.Commit.Interval = time.Nanosecond }
	ends := l.observe(nil, kmsg.EndTxn)
	r := l.start("one", l.config())
	for i := range 30 {
		l.writeAll(1)
		r.committedTo(int32(i%8), int64(i))
	}
	l.finished()
	refusals(t, r)
	if ends.Hits() < 60 {
		t.Errorf("only %d transactions were made", ends.Hits())
	}
}

// Public case B9: folding falls behind, so that what waits for a commit grows. A transaction begins when
// its batch is closed, and a batch is closed by a share of the transaction timeout: none runs into it,
// however slow the fold is.
func TestCaseB9SlowFoldAgainstTheTransactionTimeout(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.guarantee = holdfast.FencedOutputs
	l.tune = func(c *holdfast.Config[tally]) {
		c.Member.TransactionTimeout, c.Commit.Interval = 2*time.Second, time.Hour
		c.Fold = func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
			select {
			case <-time.After(150 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			return fold(ctx, k, r)
		}
	}
	r := l.start("slow", l.config())
	began := time.Now()
	l.write(0, 20)
	l.reach()
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("the folds took %v, which is not long", took)
	}
	l.tune = nil
	l.finished()
	refusals(t, r)
}

// Public case B10: the broker of a version before 4.0 is slow to take the first partition of a
// transaction into it. The transaction is not taken for one that has nothing to commit.
func TestCaseB10FirstPartitionIsAddedLate(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, kfake.MaxVersions(kversion.V3_9_0()))
	l.guarantee = holdfast.FencedOutputs
	first := true
	came, release := l.hold(kmsg.AddPartitionsToTxn, func(kmsg.Request) bool {
		was := first
		first = false
		return was
	})
	beat := l.observe(nil, kmsg.Heartbeat)
	l.write(0, 1)
	l.start("one", l.config())
	<-came
	l.wait(beat, beat.Hits()+5)
	if n := l.committed(0); n > 0 {
		t.Errorf("offset %d is committed although no partition is in the transaction", n)
	}
	release()
	l.write(0, 5)
	l.finished()
}

// Public case B12: intervals in which there is nothing to commit, only an offset, or only outputs. The
// first sends nothing, and each of the others is one transaction that stands.
func TestCaseB12IntervalsWithoutRecords(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.guarantee = holdfast.FencedOutputs
	l.tune = func(c *holdfast.Config[tally]) {
		c.Route = func(r stream.Record) ([]byte, bool) { return r.Key, string(r.Key) != "skipped" }
		c.Fold = func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
			if string(r.Key) == "outputs" {
				k.Emit(stream.Message{Topic: output, Key: r.Key, Value: fmt.Appendf(nil, "%d", r.Offset)})
				return nil
			}
			return fold(ctx, k, r)
		}
	}
	ends, beat := l.observe(nil, kmsg.EndTxn), l.observe(nil, kmsg.Heartbeat)
	idle := func() {
		t.Helper()
		before := ends.Hits()
		l.wait(beat, beat.Hits()+4) // many intervals
		if n := ends.Hits() - before; n > 0 {
			t.Errorf("%d transactions were ended while there was nothing to do", n)
		}
	}
	r := l.start("one", l.config())
	l.write(0, 3)
	r.committedTo(0, 3)
	idle()
	for _, key := range []string{"skipped", "outputs"} {
		l.send(&kgo.Record{Topic: input, Key: []byte(key), Value: []byte("1")})
		l.written[0]++
		l.reach()
		r.committedTo(0, int64(l.written[0]))
		idle()
	}
	l.finished()
	refusals(t, r)
	for _, e := range all[stream.Committed](r)[1:] {
		if e.Next > 3 && e.Writes > 0 {
			t.Errorf("the transaction up to %d has %d states", e.Next, e.Writes)
		}
	}
}

// Public case B16: the coordinator answers for a long time that another transaction is being completed. The
// ownership ends in a bounded time, with an error that names what was asked, and when the coordinator has
// recovered the same process goes on.
func TestCaseB16ConcurrentTransactionsForLong(t *testing.T) {
	t.Parallel()
	for key, words := range map[kmsg.Key]string{kmsg.TxnOffsetCommit: "offset-commit: ", kmsg.EndTxn: stream.ErrOutcomeUnknown.Error()} {
		t.Run(key.Name(), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1)
			l.guarantee = holdfast.FencedOutputs
			l.tune = func(c *holdfast.Config[tally]) {
				c.Member.TransactionTimeout, c.Member.RebalanceTimeout = 500*time.Millisecond, 2200*time.Millisecond
				c.Commit.RevokeBudget = 100 * time.Millisecond
			}
			l.write(0, 3)
			r := l.start("one", l.config())
			l.reach()
			fault := l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.ConcurrentTransactions, Count: -1, TopLevel: key == kmsg.EndTxn})
			l.write(0, 3)
			e := await(r, func(lost) bool { return true })
			if text := e.Cause.Error(); !strings.Contains(text, "commit in/0 offset") || !strings.Contains(text, words) {
				t.Errorf("the cause does not say what was tried: %s", text)
			}
			fault.Remove()
			l.finished()
		})
	}
}

// Public case B18: the connections are reset again and again while there is one producer an id. What the
// client makes of it never looks like a second one, and nothing is lost or repeated.
func TestCaseB18StormOfDisconnects(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	l.guarantee = holdfast.FencedOutputs
	l.resets = map[kmsg.Key]int{kmsg.InitProducerID: 2} // an id need not be initialised later on
	r := l.start("one", l.config())
	storm := []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.Fetch, kmsg.Heartbeat}
	cut := 0
	for i := range 30 {
		r.link.reset(storm[i%len(storm)], 1+i%3)
		if i%4 == 0 {
			cut += r.link.cut()
		}
		l.writeAll(1)
		r.committedTo(int32(i%2), int64(i)) // so that resets hit commits of several rounds
	}
	var met map[kmsg.Key]int
	l.await("every reset has met a request", func() (over bool) {
		l.writeAll(1)
		l.reach()
		met, over = r.link.stormOver()
		return over
	})
	l.finished()
	for _, key := range append(storm, kmsg.InitProducerID) {
		if met[key] < 2 {
			t.Errorf("%d resets have met %s: that is no storm", met[key], key.Name())
		}
	}
	if cut == 0 {
		t.Error("no connection was cut")
	}
	for _, e := range all[stream.Refused](r) {
		if e.Cause == "producer-epoch" {
			t.Errorf("a commit was refused as a second producer's: %v", e.Err)
		}
	}
}

// Public case B7: the coordinator has forgotten an id that was not used for long. The rightful owner
// initialises it once more and goes on; the records of the transaction are there once.
func TestCaseB7IDHasExpired(t *testing.T) {
	t.Parallel()
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		t.Run(key.Name(), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1)
			l.guarantee = holdfast.FencedOutputs
			l.write(0, 3)
			l.start("one", l.config())
			l.reach()
			inits := l.observe(nil, kmsg.InitProducerID)
			forgotten := func(top bool) kfake.Fault {
				return kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.InvalidProducerIDMapping, TopLevel: top, When: func(req kmsg.Request) bool {
					p, ok := req.(*kmsg.ProduceRequest)
					return !ok || p.TransactionID != nil
				}}
			}
			fault := l.cluster.Fault(forgotten(key == kmsg.EndTxn))
			l.write(0, 3)
			l.wait(fault, 1)
			l.reach()
			l.finished()
			if inits.Hits() == 0 {
				t.Error("the id was not initialised anew")
			}
		})
	}
}
