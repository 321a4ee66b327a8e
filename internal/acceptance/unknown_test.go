package acceptance

import (
	"context"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// unknown is a flow that does not learn the outcome of its transaction up to offset 20.
type unknown struct {
	c            *kafkatest.Cluster
	input, group string
	a            *tap
	f            *flow
	watch        *gate
	init         *wiretap.Fault // the initialisation that follows
	mark         int            // place on the wire before it
}

// outcomeUnknown runs until the flow is about to initialise its id to find out what has become of its
// transaction. delivered: the broker has carried the EndTxn out.
func outcomeUnknown(t *testing.T, ctx context.Context, delivered bool) *unknown {
	c := kafkatest.Start(t)
	u := &unknown{c: c, a: newTap(t, c), watch: newGate(math.MaxInt64, 0)}
	u.input = c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	u.group = u.input + "-flow"
	pr := producer(t, c)
	produce(t, pr, u.input, 0, 3, 0, 10)
	conf := tapped(short(config(c.Addrs, u.group, u.input)), u.a, "A")
	conf.Member.TransactionTimeout = 2 * time.Second
	conf.Fold = u.watch.fold
	u.f = start(t, ctx, "A", conf)
	u.f.committedTo(0, 10)

	first := u.a.Fault(wiretap.CutOnResponse, wiretap.First(1, wiretap.Committing))
	cut := u.a.Fault(wiretap.CutOnRequest, func(r wiretap.Request) bool {
		return wiretap.Committing(r) && (!delivered || len(first.Caught()) > 0)
	})
	u.init = u.a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.InitProducerID))
	t.Cleanup(u.init.Lift)
	produce(t, pr, u.input, 0, 3, 10, 20)
	caught(t, u.init, 1)
	u.mark = u.a.mark()
	first.Lift()
	cut.Lift()

	// Records come meanwhile, and none of them is folded.
	produce(t, pr, u.input, 0, 3, 20, 30)
	got := u.a.awaitSeen("records", 0, 1, isRequest[*kmsg.FetchRequest](func(s sight) bool { return hasRecordsFrom(s.resp, 20) }))[0].place
	u.a.awaitSeen("the fetch after them", got+1, 1, isRequest[*kmsg.FetchRequest](func(s sight) bool { return s.answered }))
	return u
}

// hasRecordsFrom reports whether a fetch brought a batch that begins at offset or after it.
func hasRecordsFrom(resp kmsg.Response, offset uint64) bool {
	fetch, ok := resp.(*kmsg.FetchResponse)
	if !ok {
		return false
	}
	for _, t := range fetch.Topics {
		for _, p := range t.Partitions {
			if b := p.RecordBatches; len(b) >= 8 && binary.BigEndian.Uint64(b) >= offset { // a batch begins with its first offset
				return true
			}
		}
	}
	return false
}

// again returns the commits of offset 20 that the flow has sent since.
func (u *unknown) again() []sight {
	return u.a.seen(u.mark, isRequest[*kmsg.TxnOffsetCommitRequest](func(s sight) bool {
		return s.req.(*kmsg.TxnOffsetCommitRequest).Topics[0].Partitions[0].Offset == 20
	}))
}

// The answer to an EndTxn is lost, or the EndTxn itself. Nobody knows which: the flow initialises its id,
// reads what is committed, and sends the transaction again in the one case only.
// Public case B1.
func TestKafkaOutcomeUnknown(t *testing.T) {
	for name, delivered := range map[string]bool{"the answer is lost": true, "the request is lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := outcomeUnknown(t, t.Context(), delivered)
			for len(u.watch.doors[0].folded) > 0 {
				if o := <-u.watch.doors[0].folded; o >= 20 {
					t.Errorf("offset %d was folded while the outcome was unknown", o)
				}
			}
			u.init.Lift()
			e := await(u.f, 0, func(e stream.Committed) bool { return e.Next >= 20 })
			if e.Next != 20 || !e.ReadBack {
				t.Errorf("committed %+v, want 20 read back", e)
			}
			u.f.committedTo(0, 30)
			if n := len(u.again()); (n == 0) != delivered || n > 1 {
				t.Errorf("the transaction was sent again %d times: %v", n, u.again())
			}
			if err := u.f.stop(); err != nil {
				t.Error(err)
			}
			for _, d := range check(t, u.c, u.group, u.input, u.group+"-snapshots") {
				t.Error(d)
			}
		})
	}
	t.Run("without the read-back", func(t *testing.T) {
		t.Parallel()
		u := outcomeUnknown(t, rule.Without(t.Context(), rule.ReadBack), true)
		u.init.Lift()
		u.a.awaitSeen("the transaction again", u.mark, 1, isRequest[*kmsg.EndTxnRequest](answeredWith(nil)))
		if len(u.again()) == 0 {
			t.Error("a transaction that was committed was not sent again")
		}
	})
}
