package crash

import (
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

const (
	// patience bounds the wait for a request that the recorder has seen at this place.
	patience = 30 * time.Second
	// rarely is a time between commits that no run lasts: what is committed was asked for.
	rarely = 10 * time.Second
	// batch is how many outputs close the batch of a pipe.
	batch = 3
)

// The group protocols beside the cooperative one.
const (
	eager      = "eager"
	serverSide = "server-side" // KIP-848
)

// protocol is the group protocol of the sweep, that HOLDFAST_CRASH_PROTOCOL names: "cooperative" unless it is set,
// "eager" or "server-side".
func protocol(t *testing.T) string {
	t.Helper()
	switch p := os.Getenv("HOLDFAST_CRASH_PROTOCOL"); p {
	case "":
		return "cooperative"
	case "cooperative", eager, serverSide:
		return p
	default:
		t.Fatalf("HOLDFAST_CRASH_PROTOCOL is %q, want cooperative, eager or %s", p, serverSide)
		return ""
	}
}

// component is what is swept.
type component struct {
	name string
	app  trial.App
	like []string // the pairs of these other components are left to them
	// fresh has nothing committed: the member makes the first commit before it folds.
	fresh bool
}

var components = []component{
	{name: "FencedState", app: trial.App{Kind: trial.Flow, Probe: true}},
	{name: "FencedOutputs", app: trial.App{Kind: trial.Flow, Guarantee: holdfast.FencedOutputs, Probe: true}},
	{name: "pipe", app: trial.App{Kind: trial.Pipe, Probe: true}},
	{name: "Unfenced", app: trial.App{Kind: trial.Flow, Guarantee: holdfast.Unfenced}, like: []string{"FencedState"}},

	{name: "FencedState, new", app: trial.App{Kind: trial.Flow}, like: []string{"FencedState"}, fresh: true},
	{name: "FencedOutputs, new", app: trial.App{Kind: trial.Flow, Guarantee: holdfast.FencedOutputs}, like: []string{"FencedOutputs"}, fresh: true},
	{name: "pipe, new", app: trial.App{Kind: trial.Pipe}, like: []string{"pipe"}, fresh: true},
	{name: "Unfenced, new", app: trial.App{Kind: trial.Flow, Guarantee: holdfast.Unfenced}, like: []string{"FencedState", "Unfenced"}, fresh: true},
}

// partitions is how many partitions the input has: one to give up and one to keep. A new component has
// one, since its first commits would go side by side.
func (c component) partitions() int32 {
	if c.fresh {
		return 1
	}
	return 2
}

// unfenced reports whether a stale owner may overwrite what is newer.
func (c component) unfenced() bool {
	return c.app.Kind == trial.Flow && c.app.Guarantee == holdfast.Unfenced
}

// run is one component, with a state to restore, and the member that is watched.
type run struct {
	t        *testing.T
	c        component
	f        *trial.Field
	one, two *trial.Member
	tr       *Tracker
	stage    int
	mark     int             // in the field's events, before the present stage
	before   int             // outputs answered before the present stage
	seeded   map[int32]int64 // committed at the start
	acked    map[int32]int64 // acknowledged by a broker before the blow
}

// newRun makes a component that has committed something, and a member that is yet to start. It commits
// nothing but what it is asked for.
func newRun(t *testing.T, c component) *run {
	t.Helper()
	// A dead member is expelled by the test. A session that is long keeps the others in the group on a machine
	// that has little time for them.
	c.app.Session, c.app.Rebalance = 30*time.Second, 40*time.Second
	c.app.Protocol = protocol(t)
	r := &run{t: t, c: c, f: trial.New(t, kafkatest.Start(t), c.app, c.partitions()), acked: map[int32]int64{}}
	r.seed()

	r.one, r.two = r.f.Member("one"), r.f.Member("two")
	r.one.App.Commit, r.one.App.Persist, r.one.App.TransactionTimeout = rarely, rarely, 3*rarely
	if c.app.Kind == trial.Pipe {
		r.one.App.MaxWrites = batch
	}
	r.tr = NewTracker(r.names(), c.partitions())
	r.one.Tap.OnRequest(func(q wiretap.Request) {
		if req, err := q.Decoded(); err == nil { // the proxy reports what it cannot decode
			r.tr.See(idOf(q), req)
		}
	})
	r.one.Tap.OnResponse(func(q wiretap.Request, resp kmsg.Response) { r.tr.Answered(idOf(q), resp) })
	return r
}

// seed has another member commit something, with a state to restore.
func (r *run) seed() {
	r.t.Helper()
	r.seeded = map[int32]int64{}
	if r.c.fresh {
		for p := range r.c.partitions() {
			r.seeded[p] = -1
		}
		return
	}
	seed := r.f.Member("seed")
	seed.Start()
	for p := range r.c.partitions() {
		r.seeded[p] = r.f.SendTo(p, 8) + 1
	}
	r.f.CaughtUp()
	seed.Stop()
}

func idOf(q wiretap.Request) ID { return ID{q.Upstream, q.Conn, q.CorrelationID} }

func (r *run) names() Names {
	r.t.Helper()
	n := Names{
		Group: r.f.App.Group, Input: r.f.App.Input, Output: r.f.App.Output, Progress: r.f.App.Progress(),
		Topics: map[[16]byte]string{}, IDs: map[string]int32{},
	}
	topics, err := r.f.Admin.ListTopics(r.t.Context(), n.Input, n.Output, n.Progress)
	if err != nil {
		r.t.Fatal(err)
	}
	for name, d := range topics {
		n.Topics[d.ID] = name
	}
	for p := range r.c.partitions() {
		n.IDs[r.f.TransactionalID(p)] = p
	}
	return n
}

// stage is a piece of the undisturbed run. act does not wait, done does.
type stage struct {
	name string
	act  func(*run)
	done func(*run)
}

// joins is the name of the stage in which the other member joins.
const joins = "gives a partition up"

// stages is the whole run of the member. That of a new component ends with the first commit.
func (c component) stages() []stage {
	s := []stage{{"starts", func(r *run) { r.one.Start() }, (*run).owns}}
	folds := func(p int32) stage {
		return stage{"folds", func(r *run) { r.send(p, false) }, func(r *run) { r.folded(p) }}
	}
	commits := func(p int32) stage {
		return stage{"commits", func(r *run) { r.send(p, true) }, func(r *run) { r.one.AwaitCommit(r.mark) }}
	}
	if !c.fresh {
		s = append(s, folds(0), folds(0), commits(0), folds(0), folds(0), commits(0), folds(1), folds(1), commits(1))
		s = append(s, folds(0), folds(1))
		s = append(s, stage{joins, func(r *run) { r.two.Start() }, (*run).shared})
	}
	return append(s, stage{"closes", func(r *run) { r.tr.Closing(); r.one.Terminate() }, func(r *run) {
		if err := r.one.Wait(); err != nil {
			r.t.Fatal(err)
		}
	}})
}

// begin begins a stage.
func (r *run) begin(i int, s stage) {
	r.stage, r.mark, r.before = i, r.f.Mark(), r.tr.Answers(produceOutputs)
	s.act(r)
}

// send sends a record of which there is one output, and nothing else that would make a commit come by
// itself. last: it closes the batch.
func (r *run) send(p int32, last bool) {
	r.t.Helper()
	r.tr.Load(p)
	r.f.SendWhere(p, 1, func(v int) bool {
		if trial.Outputs(v) != 1 { // two may go in one request or in two
			return false
		}
		return r.c.app.Kind == trial.Pipe || !trial.Deletes(v) && trial.Persists(v) == last
	})
}

// owns waits until all partitions are restored and read.
func (r *run) owns() {
	r.t.Helper()
	r.f.Await("all partitions", r.mark, int(r.c.partitions()), r.one.Is(trial.Kinds(holdfasttest.EventRestored)))
	for p := range r.c.partitions() {
		r.wait("a fetch of the input", func() bool { return r.tr.Position(p) >= 0 })
	}
}

// folded waits until the member goes on behind the last record, and has sent its outputs.
func (r *run) folded(p int32) {
	r.t.Helper()
	end := r.f.Ends()[p]
	r.wait("the record", func() bool { return r.tr.Position(p) >= end })
	if r.c.app.Kind == trial.Flow && r.c.app.Guarantee != holdfast.FencedOutputs {
		r.wait("its outputs", func() bool { return r.tr.Answers(produceOutputs) > r.before })
	}
}

// shared waits until both members have a partition.
func (r *run) shared() {
	r.t.Helper()
	r.f.Await("a revoked partition", r.mark, 1, r.one.Is(trial.Kinds(holdfasttest.EventRevoked)))
	r.two.Owns()
	// The round in which the partition was given up has to be over.
	r.wait("the end of the rebalance", r.tr.Settled)
	if r.f.App.Protocol == eager { // what it keeps was given up as well
		r.f.Await("the partition that it keeps", r.mark, 1, r.one.Is(trial.Kinds(holdfasttest.EventRestored)))
	}
}

// wait waits for something on the member's wire.
func (r *run) wait(what string, is func() bool) {
	r.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		grown := r.tr.Grown()
		if is() {
			return
		}
		select {
		case <-grown:
		case <-limit.C:
			r.t.Fatalf("%s: the wire has not shown %s within %v", r.c.name, what, patience)
		}
	}
}
