package outputs

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// crashPoint is a place between two requests of one commit.
type crashPoint struct {
	name string
	at   wiretap.Action // on the request
	key  kmsg.Key
	late bool // the request arrives after the process is dead, and before anybody has taken over

	// What the log has to show of the transaction: nothing, or its records with a status.
	left wire.Status
}

var crashPoints = []crashPoint{
	{"before the records", wiretap.HoldRequest, kmsg.Produce, false, ""},
	{"records written", wiretap.HoldResponse, kmsg.Produce, false, wire.StatusAborted},
	{"before the offset", wiretap.HoldRequest, kmsg.TxnOffsetCommit, false, wire.StatusAborted},
	{"offset bound", wiretap.HoldResponse, kmsg.TxnOffsetCommit, false, wire.StatusAborted},
	{"before the end", wiretap.HoldRequest, kmsg.EndTxn, false, wire.StatusAborted},
	{"the end arrives late", wiretap.HoldRequest, kmsg.EndTxn, true, wire.StatusCommitted},
	{"ended, not answered", wiretap.HoldResponse, kmsg.EndTxn, false, wire.StatusCommitted},
}

// A process is killed between each two requests of one commit, and another member goes on: outputs are
// there once, and what the killed process had begun is there as a whole or not at all.
func TestKafkaKilledAtEachStep(t *testing.T) {
	for _, p := range crashPoints {
		t.Run(p.name, func(t *testing.T) {
			each(t, func(_ *testing.T, l *lab) { l.crash(p) })
		})
	}
}

// crash kills a member at a place of its second commit and has another one go on.
func (l *lab) crash(p crashPoint) {
	l.t.Helper()
	w := newTap(l.t, l.k)
	child := l.child(w)
	l.produce(0, 0, 20)
	awaitEvent(l.t, child, "committed 0 20")
	doomed := l.nextAttempt()

	hold := w.Fault(p.at, wiretap.First(1, on(l.id(0), p.key)))
	l.t.Cleanup(hold.Lift)
	mark := w.mark()
	l.produce(0, 20, 23)
	caught(l.t, hold, 1)
	l.killed(child, w, hold, p)
	l.landed(w.seen(mark, transactional), p)
	l.expel()

	l.produce(0, 23, 40)
	next := l.start(l.t.Context(), "next", l.conf)
	next.committedTo(0, 40)
	next.stop()
	w.orderly()
	l.verify()
	l.wasLeft(doomed, p.left)
}

// killed kills the child where it is held, and decides whether what is held arrives.
func (l *lab) killed(child *kafkatest.Process, w *tap, hold *wiretap.Fault, p crashPoint) {
	l.t.Helper()
	if err := child.Kill(); err != nil {
		l.t.Fatal(err)
	}
	if !p.late {
		w.Cut(nil)
		hold.Lift()
		return
	}
	mark := w.mark()
	hold.Lift()
	w.awaitSeen("the end that arrives late", 0, 1, func(s sight) bool {
		return s.CorrelationID == hold.Caught()[0].CorrelationID && s.Conn == hold.Caught()[0].Conn && s.answered
	})
	if n := len(w.seen(mark, transactional)); n != 0 {
		l.t.Errorf("%d requests after the death", n)
	}
}

// landed asserts that the process died where it was to: its last request is the one that was held.
func (l *lab) landed(seen []sight, p crashPoint) {
	l.t.Helper()
	if len(seen) == 0 {
		l.t.Fatal("no request of the transaction was seen")
	}
	last := seen[len(seen)-1]
	for _, s := range seen {
		if p.key == kmsg.Produce && kmsg.Key(s.Key) != kmsg.Produce && kmsg.Key(s.Key) != kmsg.AddPartitionsToTxn {
			l.t.Errorf("the process went on to %v", s)
		}
	}
	answered := p.at == wiretap.HoldResponse || p.late
	if kmsg.Key(last.Key) != p.key || p.key != kmsg.Produce && last.answered != answered || last.code != 0 {
		l.t.Errorf("the last request was %v, want a %v with an answer: %t", last, p.key.Name(), answered)
	}
}

func awaitEvent(t *testing.T, child *kafkatest.Process, event string) {
	t.Helper()
	if got := child.Await(t, event, patience); got != event {
		t.Fatalf("the child tells %q, want %q", got, event)
	}
}

// nextAttempt is what tells the next transaction apart from those before it.
func (l *lab) nextAttempt() attempt {
	l.t.Helper()
	list := l.transactions()
	last := list[len(list)-1].attempt
	return attempt{last.producer, last.epoch + 1}
}

// wasLeft asserts what the log has of a transaction.
func (l *lab) wasLeft(doomed attempt, want wire.Status) {
	l.t.Helper()
	if !l.epochs() {
		return
	}
	var got wire.Status
	for _, tx := range l.transactions() {
		if tx.attempt == doomed {
			got = tx.status
		}
	}
	if got != want {
		l.t.Errorf("the transaction at which the process was killed is %q in the log, want %q", got, want)
	}
}

// A process is killed while it takes the partition over, before the broker has seen it and after.
func TestKafkaKilledInTakeover(t *testing.T) {
	for name, at := range map[string]wiretap.Action{"before": wiretap.HoldRequest, "after": wiretap.HoldResponse} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, l *lab) {
				w := newTap(t, l.k)
				first := l.start(t.Context(), "first", l.conf)
				l.produce(0, 0, 10)
				first.committedTo(0, 10)
				first.stop()
				l.produce(0, 10, 20)

				hold := w.Fault(at, wiretap.First(1, on(l.id(0), kmsg.InitProducerID)))
				t.Cleanup(hold.Lift)
				child := l.child(w)
				caught(t, hold, 1)
				if err := child.Kill(); err != nil {
					t.Fatal(err)
				}
				w.Cut(nil)
				hold.Lift()
				// The start has tried the permission on the id with a request that nobody can carry out.
				tried := func(s sight) bool { return transactional(s) && !is(kmsg.AddOffsetsToTxn)(s) }
				if sent := w.seen(0, tried); len(sent) != 1 || !is(kmsg.InitProducerID)(sent[0]) {
					t.Errorf("the process has sent %v, want one InitProducerID", sent)
				}
				l.expel()
				next := l.start(t.Context(), "next", l.conf)
				next.committedTo(0, 20)
				next.stop()
				l.verify()
			})
		})
	}
}
