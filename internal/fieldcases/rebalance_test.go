package fieldcases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/stream"
)

// Public cases C7, E8: one of two partitions is taken away while transactions of both are on their way.
// What was folded of it is committed before it goes, so that the next owner begins there; the partition
// that stays keeps its ownership and its commit.
func TestCaseC7OneOfTwoPartitionsIsTakenAwayInATransaction(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	l.guarantee = holdfast.FencedOutputs
	l.writeAll(6)
	a := l.start("a", l.config())
	l.reach()
	came, release := l.hold(kmsg.EndTxn, func(kmsg.Request) bool { return true })
	l.writeAll(6)
	<-came
	syncs := l.observe(nil, kmsg.SyncGroup)
	b := l.start("b", l.config())
	l.wait(syncs, 2) // a's among them: it is told what to give up
	release()
	e := await(b, func(stream.Restored) bool { return true })
	moved := e.Partition.Partition
	if e.Start != 12 {
		t.Errorf("the next owner begins at %d, want 12: what was in the transaction was thrown away", e.Start)
	}
	l.writeAll(6)
	l.finished()
	gone := all[revoked](a)
	if len(gone) == 0 || gone[0].Partition.Partition != moved || !gone[0].Flushed {
		t.Errorf("the partition was not given up with everything committed: %+v", gone)
	}
	kept := 0
	for _, e := range all[stream.Assigned](a) {
		if e.Partition.Partition != moved {
			kept++
		}
	}
	if n := len(all[lost](a)); kept != 1 || n > 0 {
		t.Errorf("the partition that stayed was granted %d times, and %d were lost; want one and none", kept, n)
	}
}

// Public case E3: members join and leave at random, 50 times, most of them in the middle of the rebalance
// before. No partition is left without an owner, and none without its commits.
func TestCaseE3FiftyRandomJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 3))
	l := newLab(t, 4)
	var in []*run
	for i := range 50 {
		if len(in) < 2 || len(in) < 4 && random.IntN(2) == 0 {
			in = append(in, l.start(fmt.Sprintf("m%d", i), l.config()))
		} else {
			k := random.IntN(len(in))
			l.must(in[k].end())
			in = append(in[:k], in[k+1:]...)
		}
		l.writeAll(1)
		if random.IntN(5) == 0 {
			l.reach()
		}
	}
	l.finished()
}

// Public case E4: a third member joins while the rebalance for the second one waits for a member that is
// slow to give its partitions up. The group comes to rest with all three, and none has ended.
func TestCaseE4JoinDuringASlowRevoke(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	open, folding := make(chan struct{}), make(chan struct{}, 99)
	var slow atomic.Bool
	l.tune = func(c *holdfast.Config[tally]) {
		c.Fold = func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
			if slow.Load() {
				folding <- struct{}{}
				<-open
			}
			return fold(ctx, k, r)
		}
	}
	l.writeAll(3)
	a := l.start("a", l.config())
	l.reach()
	slow.Store(true)
	l.writeAll(3)
	for range 3 {
		<-folding
	}
	l.tune = nil
	joins := l.observe(nil, kmsg.JoinGroup)
	b := l.start("b", l.config())
	l.wait(joins, 3) // b's two, and a's: it gives up what it is told to, and waits for the fold
	c := l.start("c", l.config())
	l.wait(joins, 4)
	close(open)
	l.await("the group comes to rest", l.has(3))
	l.owning(a, b, c)
	l.writeAll(3)
	l.finished()
}

// Public case E14: a fold panics in the middle of a rebalance. The member ends with an error that says
// where, the group goes on with the other one, and a process that is started in its place takes part.
func TestCaseE14PanicDuringARebalance(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	panicNow, folding := make(chan struct{}), make(chan struct{}, 9)
	l.writeAll(3)
	l.before(3)
	l.tune = func(c *holdfast.Config[tally]) {
		c.Fold = func(context.Context, *holdfast.Key[tally], stream.Record) error {
			folding <- struct{}{}
			<-panicNow
			panic("the fold of a test")
		}
	}
	a := l.start("a", l.config())
	l.writeAll(1)
	<-folding
	l.tune = nil
	joins := l.observe(nil, kmsg.JoinGroup)
	l.start("b", l.config())
	l.wait(joins, 3) // b's two, and a's
	close(panicNow)
	if e := wantStop(t, a, stream.ErrFold); e.Topic != input || e.Offset != 6 {
		t.Errorf("the error names %v at %d: %v", e.Partition, e.Offset, e)
	}
	l.reach()
	again := l.start("again", l.config())
	l.owning(again)
	l.writeAll(3)
	l.reach()
	for _, r := range l.runs {
		if r != a {
			l.must(r.end())
		}
	}
	l.verify()
}

// Public case E15: many flows run in one process, among them two members of one group, started at once.
// None is in the way of another.
func TestCaseE15ManyFlowsInOneProcess(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	l.writeAll(5)
	type flow struct {
		conf holdfast.Config[tally]
		runs []*run
	}
	var flows []*flow
	for i := range 5 {
		name := fmt.Sprintf("flow-%d", i)
		l.must(l.cluster.CreateTopic(name+"-out", 2, nil))
		l.guarantee = []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs}[i%2]
		c := l.config()
		c.Group, c.Outputs, c.Fold = name, []string{name + "-out"}, foldTo(name+"-out")
		flows = append(flows, &flow{conf: c})
	}
	for member := range 2 {
		for i, f := range flows {
			if member == 0 || i == 0 {
				f.runs = append(f.runs, l.start(fmt.Sprintf("%s.%d", f.conf.Group, member), f.conf))
			}
		}
	}
	l.writeAll(5)
	for _, f := range flows {
		l.await(f.conf.Group+" has committed everything", func() bool {
			info := l.cluster.GroupInfo(f.conf.Group)
			return info != nil && info.Commits[input][0].Offset == 10 && info.Commits[input][1].Offset == 10
		})
	}
	for _, f := range flows {
		var logs []holdfasttest.Member
		for _, r := range f.runs {
			l.must(r.end())
			logs = append(logs, r.rec.Member())
		}
		holdfasttest.Verify(t, holdfasttest.Flow(f.conf), logs...)
	}
}

// Public case H9: the process ends between the first commits of its two partitions. What had none yet
// begins where the start policy says, and no record is passed over.
func TestCaseH9EndBetweenTheFirstCommits(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	l.writeAll(10)
	came, release := l.hold(kmsg.EndTxn, func(req kmsg.Request) bool {
		id := req.(*kmsg.EndTxnRequest).TransactionalID
		return id[len(id)-1] == '1'
	})
	// The embedded broker calls every offset of a group unstable while one is in an open transaction: partition 1
	// is taken over when partition 0 has its own.
	asked, taken := l.hold(kmsg.InitProducerID, func(req kmsg.Request) bool {
		id := req.(*kmsg.InitProducerIDRequest).TransactionalID
		return id != nil && (*id)[len(*id)-1] == '1'
	})
	first := l.start("first", l.config())
	<-asked
	first.committedTo(0, 10)
	taken()
	<-came
	if at := l.committed(1); at >= 0 {
		t.Fatalf("partition 1 is committed to %d, which this test did not want", at)
	}
	first.link.stop(kmsg.Heartbeat) // for good: as one that has ended
	<-first.link.stopped
	l.await("the group has expelled it", l.expelled("first"))
	release()
	second := l.start("second", l.config())
	if e := second.restored(0); e.Start != 10 {
		t.Errorf("partition 0 begins at %d, want 10", e.Start)
	}
	l.writeAll(5)
	l.reach()
	first.link.resume()
	await(first, func(lost) bool { return true })
	l.finished()
}
