package crash

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// answerWait is how long a member waits for the answer to the end of a transaction.
const answerWait = 3 * time.Second

// doubtful is a component with one partition and a member whose outcomes become unknown.
type doubtful struct {
	t    *testing.T
	f    *trial.Field
	one  *trial.Member
	mark int
	lost binding // of the transaction whose outcome is not known

	mu    sync.Mutex
	bound []binding    // what members have put into transactions
	ends  map[ID]int16 // the broker's own answers to EndTxn
	grown chan struct{}
}

// binding is an offset in a transaction. The metadata tells batches with the same offset apart.
type binding struct {
	next     int64
	metadata string
}

func newDoubtful(t *testing.T, c component) *doubtful {
	t.Helper()
	app := c.app
	app.TransactionTimeout = answerWait
	d := &doubtful{t: t, f: trial.New(t, kafkatest.Start(t), app, 1), ends: map[ID]int16{}, grown: make(chan struct{})}
	d.one = d.f.Member("one")
	d.watch(d.one)
	d.one.Start()
	d.one.Owns()
	d.f.Send(10)
	d.f.CaughtUp()
	d.mark = d.f.Mark()
	return d
}

func (d *doubtful) watch(m *trial.Member) {
	m.Tap.OnRequest(func(q wiretap.Request) {
		req, err := q.Decoded()
		if commit, ok := req.(*kmsg.TxnOffsetCommitRequest); err == nil && ok {
			d.mu.Lock()
			defer d.mu.Unlock()
			p := commit.Topics[0].Partitions[0]
			b := binding{next: p.Offset}
			if p.Metadata != nil {
				b.metadata = *p.Metadata
			}
			d.bound = append(d.bound, b)
		}
	})
	m.Tap.OnResponse(func(q wiretap.Request, resp kmsg.Response) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ends[idOf(q)] = resp.(*kmsg.EndTxnResponse).ErrorCode
		close(d.grown)
		d.grown = make(chan struct{})
	}, kmsg.EndTxn)
}

// commits sends records and waits until the member's next end of a transaction is caught by the fault.
func (d *doubtful) commits(fault *wiretap.Fault) {
	d.t.Helper()
	d.f.Send(5)
	d.f.Caught(fault, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = d.bound[len(d.bound)-1]
}

// unknown waits until the member says that it does not know an outcome.
func (d *doubtful) unknown() {
	d.t.Helper()
	d.f.Await("an unknown outcome", d.mark, 1, d.one.Is(func(e trial.Event) bool {
		return e.Kind == holdfasttest.EventRefused && e.Cause == "unknown"
	}))
}

// told waits for the broker's answer to what a fault has held, and returns it.
func (d *doubtful) told(fault *wiretap.Fault) error {
	d.t.Helper()
	limit := time.After(patience)
	for {
		d.mu.Lock()
		code, ok := d.ends[idOf(fault.Caught()[0])]
		grown := d.grown
		d.mu.Unlock()
		if ok {
			return kerr.ErrorForCode(code)
		}
		select {
		case <-grown:
		case <-limit:
			d.t.Fatalf("no answer to the held end of a transaction within %v", patience)
		}
	}
}

// wantFenced has the broker refuse an end that comes too late.
func (d *doubtful) wantFenced(fault *wiretap.Fault) {
	d.t.Helper()
	if err := d.told(fault); err == nil || wiretap.Stale(err.(*kerr.Error).Code) == nil {
		d.t.Errorf("the late end of a transaction was answered with %v, want a fence", err)
	}
}

// resolved waits until the member knows, and asserts how often it has sent the effects.
func (d *doubtful) resolved(times int) {
	d.t.Helper()
	d.f.Await("the outcome", d.mark, 1, d.one.Is(func(e trial.Event) bool {
		return e.Kind == holdfasttest.EventCommitted && e.Offset == d.lost.next && e.ReadBack
	}))
	d.mu.Lock()
	defer d.mu.Unlock()
	sent := 0
	for _, b := range d.bound {
		if b == d.lost {
			sent++
		}
	}
	if sent != times {
		d.t.Errorf("the offset %v was sent %d times, want %d: %v", d.lost, sent, times, d.bound)
	}
}

// isCommitted reports whether the group has the offset of the lost transaction. What was committed may come
// into sight some milliseconds later.
func (d *doubtful) isCommitted(wait time.Duration) bool {
	d.t.Helper()
	for limit := time.After(wait); ; {
		os, err := d.f.Admin.FetchOffsetsForTopics(d.t.Context(), d.f.App.Group, d.f.App.Input)
		if err != nil {
			d.t.Fatal(err)
		}
		if o, _ := os.Lookup(d.f.App.Input, 0); o.Metadata == d.lost.metadata {
			return true
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-limit:
			return false
		}
	}
}

// other matches commits but the one that a fault has caught.
func other(fault *wiretap.Fault) wiretap.Match {
	first := idOf(fault.Caught()[0])
	return wiretap.All(wiretap.Committing, func(q wiretap.Request) bool { return idOf(q) != first })
}

// firstEnd holds, or loses, the next end of a transaction.
func (d *doubtful) firstEnd(a wiretap.Action) *wiretap.Fault {
	return d.one.Hold(a, wiretap.First(1, wiretap.Committing))
}

// doubts are the ways in which an outcome is not known. Each is resolved by reading back: the same effects
// go again where nothing was committed, and only there.
var doubts = []struct {
	name string
	run  func(*doubtful)
}{
	{"delivered, and its answer is lost", func(d *doubtful) {
		first := d.firstEnd(wiretap.CutOnResponse)
		again := d.one.Hold(wiretap.CutOnRequest, func(q wiretap.Request) bool { return wiretap.Committing(q) && len(first.Caught()) > 0 })
		d.commits(first)
		d.unknown()
		again.Lift()
		d.resolved(1)
	}},
	{"never delivered", func(d *doubtful) {
		lost := d.one.Hold(wiretap.CutOnRequest, wiretap.Committing)
		d.commits(lost)
		d.unknown()
		lost.Lift()
		d.resolved(2)
	}},
	{"delivered late, before the id is taken over again", func(d *doubtful) {
		first := d.firstEnd(wiretap.HoldRequest)
		init := d.one.Hold(wiretap.HoldRequest, wiretap.Keys(kmsg.InitProducerID))
		d.commits(first)
		d.unknown()
		d.f.Caught(init, 1)
		first.Lift()
		if err := d.told(first); err != nil {
			d.t.Errorf("the late end of a transaction was answered with %v", err)
		}
		init.Lift()
		d.resolved(1)
	}},
	{"delivered late, in the transaction after it", func(d *doubtful) {
		first := d.firstEnd(wiretap.HoldRequest)
		d.commits(first)
		second := d.one.Hold(wiretap.HoldRequest, wiretap.First(1, other(first)))
		d.unknown()
		d.f.Caught(second, 1)
		first.Lift()
		d.wantFenced(first)
		second.Lift()
		d.resolved(2)
	}},
	{"delivered late, when its process is dead", func(d *doubtful) {
		first := d.firstEnd(wiretap.HoldRequest)
		d.commits(first)
		d.one.Kill()
		first.Lift()
		if err := d.told(first); err != nil {
			d.t.Errorf("the late end of a transaction was answered with %v", err)
		}
		d.taken(nil)
	}},
	{"delivered late, in a transaction of the next owner", func(d *doubtful) {
		first := d.firstEnd(wiretap.HoldRequest)
		d.commits(first)
		d.one.Kill()
		d.taken(func() {
			first.Lift()
			d.wantFenced(first)
		})
	}},
	{"applied, and answered with PRODUCER_FENCED", func(d *doubtful) { d.answered(kerr.ProducerFenced) }},
	{"applied, and answered with INVALID_PRODUCER_EPOCH", func(d *doubtful) { d.answered(kerr.InvalidProducerEpoch) }},
}

// answered has the broker commit, and the member be told of a fence.
func (d *doubtful) answered(err *kerr.Error) {
	d.t.Helper()
	fence := d.one.Tap.Answer(err, wiretap.First(1, wiretap.Committing))
	d.t.Cleanup(fence.Lift)
	d.commits(fence)
	if err := d.told(fence); err != nil {
		d.t.Errorf("the broker has not committed: %v", err)
	}
	d.unknown()
	d.resolved(1)
}

// taken has another member take over from a dead one, whose end of a transaction was delivered already, or
// is delivered by late in the middle of the new owner's first transaction.
func (d *doubtful) taken(late func()) {
	d.t.Helper()
	expelAll(d.t, d.f)
	wait := time.Duration(0)
	if late == nil {
		wait = patience
	}
	if done := d.isCommitted(wait); done != (late == nil) {
		d.t.Errorf("before the next owner begins the offset %v is committed: %t", d.lost, done)
	}
	next := d.f.Member("next")
	d.watch(next)
	if late == nil {
		next.Start()
		return
	}
	hold := next.Hold(wiretap.HoldRequest, wiretap.First(1, wiretap.Committing))
	next.Start()
	d.f.Caught(hold, 1)
	late()
	hold.Lift()
}

// A commit whose outcome the member does not know is resolved right each time, whatever became of it. A
// commit of this repository is tested with a part of them, a night with all.
func TestKafkaUnknownOutcome(t *testing.T) {
	const parts = 6
	for _, c := range components[:3] {
		for _, way := range doubts {
			name := c.name + "/" + way.name
			if !everything() && hash(name)%parts != hash(trial.Commit(t))%parts {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := newDoubtful(t, c)
				way.run(d)
				d.f.Send(10)
				d.f.CaughtUp()
				d.f.Verify()
			})
		}
	}
}

// Without the read-back a member takes the fence for an abort, and sends what was committed again.
func TestKafkaUnknownOutcomeWithoutReadBack(t *testing.T) {
	if !everything() {
		t.Skip("a night's test")
	}
	for _, c := range components[1:3] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.app.Off = []rule.Name{rule.ReadBack}
			d := newDoubtful(t, c)
			fence := d.one.Tap.Answer(kerr.ProducerFenced, wiretap.First(1, wiretap.Committing))
			t.Cleanup(fence.Lift)
			d.commits(fence)
			d.unknown()
			d.f.Send(10)
			d.f.CaughtUp()
			if vs := d.f.Verdict(); !slices.ContainsFunc(vs, func(v holdfasttest.Violation) bool { return v.Invariant == "I4" }) {
				t.Errorf("no output is there twice, but %v", vs)
			}
		})
	}
}
