package acceptance

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// duel is a member A whose first InitProducerID is on its way for so long that the group has expelled
// A and B works when it arrives. The broker cannot know: it fences B.
type duel struct {
	t            *testing.T
	c            *kafkatest.Cluster
	input, group string
	id           string
	a, b         *tap
	flowA, flowB *flow
	join         *wiretap.Fault // A's JoinGroup
}

// late runs until A's InitProducerID has arrived and A is about to bind its first offset, while B owns
// the partition. Every offset that either of them is about to bind is held until it is released.
func late(t *testing.T, ctx context.Context) (d *duel, bindA, bindB *wiretap.Fault) {
	c := kafkatest.Start(t)
	d = &duel{t: t, c: c, a: newTap(t, c), b: newTap(t, c)}
	d.input = c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	d.group = d.input + "-flow"
	d.id = idOf(d.group, 0)
	pr := producer(t, c)

	// The first flow commits an offset, so that A has nothing to commit before it folds.
	first := start(t, t.Context(), "first", short(config(c.Addrs, d.group, d.input)))
	await(first, 0, any1[stream.Restored])
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	// The client of the takeover in the callback is given up when the callback has to return. What is
	// held is the request of the next client, on the worker's goroutine.
	d.a.Fault(wiretap.DropRequest, wiretap.First(1, wiretap.Keys(kmsg.InitProducerID)))
	init := d.a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.InitProducerID))
	d.flowA = start(t, ctx, "A", tapped(short(config(c.Addrs, d.group, d.input)), d.a, "A"))
	caught(t, init, 1)
	d.a.awaitSeen("the client's offset fetch", 0, 1, isRequest[*kmsg.OffsetFetchRequest](answeredWith(nil)))
	d.join = d.a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.JoinGroup))
	d.flowB = start(t, ctx, "B", tapped(short(config(c.Addrs, d.group, d.input)), d.b, "B"))
	t.Cleanup(d.join.Lift)
	t.Cleanup(init.Lift)
	caught(t, d.join, 1)
	awaitExpelled(t, c, d.group, "A")
	produce(t, pr, d.input, 0, 3, 0, 10)
	d.flowB.committedTo(0, 10)
	awaitNoTransaction(t, c, d.id) // else the broker asks A to try again, and A's question to the group comes first

	bindA = d.a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.TxnOffsetCommit))
	bindB = d.b.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.TxnOffsetCommit))
	t.Cleanup(bindA.Lift)
	t.Cleanup(bindB.Lift)
	produceB := d.b.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.Produce))
	t.Cleanup(produceB.Lift)
	init.Lift()
	await(d.flowA, 0, any1[stream.Restored])
	produce(t, pr, d.input, 0, 3, 10, 20)
	caught(t, bindA, 1)
	produceB.Lift() // not before, so that A has not found out at its first produce
	caught(t, bindB, 1)
	return d, bindA, bindB
}

// inits returns the initialisations that a member has sent after mark.
func (d *duel) inits(w *tap, mark int) []sight {
	return w.seen(mark, isRequest[*kmsg.InitProducerIDRequest](under(d.id)))
}

// took counts the initialisations that the broker has carried out. Others it has asked to try again.
func took(inits []sight) (n int) {
	for _, s := range inits {
		if answeredWith(nil)(s) {
			n++
		}
	}
	return n
}

// asked checks that the group has answered a member between any two of its initialisations, those that
// the broker has asked to try again included.
func (d *duel) asked(w *tap) {
	d.t.Helper()
	answered, inits := true, 0
	for _, s := range w.seen(0, func(sight) bool { return true }) {
		switch s.req.(type) {
		case *kmsg.HeartbeatRequest:
			answered = answered || s.answered
		case *kmsg.InitProducerIDRequest:
			if inits++; !answered {
				d.t.Errorf("initialisation %d was sent without an answer of the group since the one before", inits)
			}
			answered = false
		}
	}
}

// A stale process that initialises late costs its successor one read-back: it asks the group before it
// would initialise again, and gives up. Without that question the two abort each other for as long as
// the schedule has them meet.
func TestKafkaDuel(t *testing.T) {
	t.Run("with all rules", func(t *testing.T) {
		t.Parallel()
		d, bindA, bindB := late(t, t.Context())
		mark, markB := d.a.mark(), d.b.mark()
		bindA.Release()
		refused := d.a.awaitSeen("the refusal of A's commit", 0, 1,
			isRequest[*kmsg.TxnOffsetCommitRequest](under(d.id), func(s sight) bool { return s.answered && s.code != 0 }))
		if refused[0].code != kerr.InvalidProducerEpoch.Code && refused[0].code != kerr.ProducerFenced.Code {
			t.Errorf("A's commit was refused with %s, want the producer epoch", codeName(refused[0].code))
		}
		d.a.awaitSeen("the group's answer to A", mark, 1, isRequest[*kmsg.HeartbeatRequest](answeredWith(kerr.UnknownMemberID)))
		await(d.flowA, 0, any1[lost])
		bindB.Lift()
		d.flowB.committedTo(0, 20)
		if got := d.inits(d.a, mark); len(got) > 0 {
			t.Errorf("A has initialised the id again: %v", got)
		}
		if got := d.inits(d.b, markB); len(got) > 0 {
			t.Errorf("B has initialised the id again: %v", got)
		}
		if got := took(d.inits(d.b, 0)); got != 2 {
			t.Errorf("B has initialised the id %d times, want its takeover and one more", got)
		}
		d.asked(d.b)
		bindA.Lift()
		d.join.Lift()
		for _, f := range []*flow{d.flowA, d.flowB} {
			if err := f.stop(); err != nil {
				t.Error(err)
			}
		}
		for _, diff := range check(t, d.c, d.group, d.input, d.group+"-snapshots") {
			t.Error(diff)
		}
	})
	t.Run("without the rule", func(t *testing.T) {
		t.Parallel()
		d, bindA, bindB := late(t, rule.Without(t.Context(), rule.Probe))
		mark, markB := d.a.mark(), d.b.mark()
		const rounds = 2
		for i := range rounds {
			bindA.Release()
			caught(t, bindA, i+2)
			bindB.Release()
			caught(t, bindB, i+2)
		}
		if a, b := took(d.inits(d.a, mark)), took(d.inits(d.b, markB)); a != rounds || b != rounds {
			t.Errorf("A has initialised the id %d times and B %d times in %d rounds", a, b, rounds)
		}
		if next := committed(t, d.c, d.group, d.input)[0]; next != 10 {
			t.Errorf("the committed offset has moved to %d during the duel", next)
		}
	})
}
