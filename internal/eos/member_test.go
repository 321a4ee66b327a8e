package eos

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// member is a copier of ours that can be started again after its end, behind proxies of its own.
type member struct {
	b       *bench
	name    string
	tap     *wiretap.Cluster
	refused atomic.Int32  // commits that a broker has refused
	refusal chan struct{} // has something after a refusal
	proc    *kafkatest.Process
	ending  *atomic.Bool // whether the process may end
}

// idOf returns the transactional id of our members for a partition.
func (b *bench) idOf(p int32) string {
	return fence.TransactionalID(b.conf.Group, b.conf.Progress, p)
}

// member starts a copier, and returns when it owns a partition.
func (b *bench) member(name string) *member {
	b.t.Helper()
	m := b.newMember(name)
	m.start()
	return m
}

// newMember returns a copier that is yet to be started.
func (b *bench) newMember(name string) *member {
	b.t.Helper()
	tap, err := wiretap.NewCluster(b.c.Addrs)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := errors.Join(tap.Err(), tap.Close()); err != nil {
			b.t.Error(err)
		}
	})
	m := &member{b: b, name: name, tap: tap, refusal: make(chan struct{}, 1)}
	tap.OnResponse(func(_ wiretap.Request, resp kmsg.Response) {
		if end, ok := resp.(*kmsg.EndTxnResponse); ok && end.ErrorCode != 0 {
			m.refused.Add(1)
			select {
			case m.refusal <- struct{}{}:
			default:
			}
		}
	}, kmsg.EndTxn)
	tap.OnRequest(func(r wiretap.Request) {
		if kmsg.Key(r.Key) == kmsg.OffsetCommit {
			b.commits.Add(1)
		}
	})
	return m
}

// start starts the process, and returns when it owns a partition.
func (m *member) start() {
	m.b.t.Helper()
	mark := m.b.log.mark()
	m.launch()
	m.b.log.await("a partition for "+m.name, mark, 1, func(e entry) bool { return e.from == m.name && e.is("assigned", "took") })
}

func (m *member) launch() {
	m.b.t.Helper()
	conf := m.b.conf
	conf.Via = m.tap.Map()
	m.proc, m.ending = kafkatest.StartChild(m.b.t, "copier", conf), &atomic.Bool{}
	m.b.log.follow(m.name, m.proc, m.ending)
}

// kill ends the process with SIGKILL.
func (m *member) kill() {
	m.b.t.Helper()
	m.ending.Store(true)
	if err := m.proc.Kill(); err != nil {
		m.b.t.Fatal(err)
	}
}

// stop ends the process in order, and waits for it.
func (m *member) stop() {
	m.b.t.Helper()
	m.ending.Store(true)
	ctx, cancel := context.WithTimeout(m.b.t.Context(), patience)
	defer cancel()
	if err := m.proc.Stop(ctx); err != nil {
		m.b.t.Error(err)
	}
}

// terminate asks the process to end, and does not wait.
func (m *member) terminate() {
	m.b.t.Helper()
	m.ending.Store(true)
	if err := syscall.Kill(m.proc.Pid(), syscall.SIGTERM); err != nil {
		m.b.t.Fatal(err)
	}
}

// holdCommit holds one request of the member to commit, before the broker sees it.
func (m *member) holdCommit() *wiretap.Fault {
	f := m.tap.Fault(wiretap.HoldRequest, wiretap.First(1, wiretap.All(wiretap.Keys(kmsg.EndTxn), wiretap.Committing)))
	m.b.t.Cleanup(f.Lift)
	return f
}

// discard ends the connections of a member that is dead, with what is held on them.
func (m *member) discard(hold *wiretap.Fault) {
	m.tap.Cut(func(string) bool { return true })
	hold.Lift()
}

// partitionOf returns the partition that a request to end a transaction is about.
func (m *member) partitionOf(r wiretap.Request) int32 {
	m.b.t.Helper()
	req, err := r.Decoded()
	if err != nil {
		m.b.t.Fatal(err)
	}
	id := req.(*kmsg.EndTxnRequest).TransactionalID
	for p := range m.b.partitions {
		if id == m.b.idOf(p) {
			return p
		}
	}
	m.b.t.Fatalf("%s ends a transaction under %s", m.name, id)
	return -1
}

// crash kills a member whose commit is on its way, and starts it again. What becomes of the commit is
// one of three: it arrives after the death, it never arrives, or it arrives when the partition has
// another owner.
func (m *member) crash(portion, n int) {
	m.b.t.Helper()
	hold := m.holdCommit()
	m.b.seed(m.b.seeded + portion)
	caught(m.b.t, hold, 1)
	partition := m.partitionOf(hold.Caught()[0])
	mark := m.b.log.mark()
	m.kill()
	switch n % 3 {
	case 0:
		hold.Lift()
	case 1:
		m.discard(hold)
	}
	m.start()
	m.b.log.await(fmt.Sprintf("the takeover of partition %d", partition), mark, 1, func(e entry) bool {
		return e.is(fmt.Sprintf("took %d ", partition))
	})
	hold.Lift()
}

// leave stops a member whose commit is on its way, and starts it again.
func (m *member) leave(portion, _ int) {
	m.b.t.Helper()
	hold := m.holdCommit()
	m.b.seed(m.b.seeded + portion)
	caught(m.b.t, hold, 1)
	m.terminate()
	hold.Lift()
	m.stop()
	m.start()
}

// caught waits until a fault has applied to n requests.
func caught(t *testing.T, f *wiretap.Fault, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Await(ctx, n); err != nil {
		t.Fatal(err)
	}
}
