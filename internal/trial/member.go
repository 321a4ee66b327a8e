package trial

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// Member is a member of the group. It is one process after another, behind proxies that stay.
type Member struct {
	Name     string
	App      App // what the next process runs
	Tap      *wiretap.Cluster
	Refusals *wiretap.Refusals // what brokers have refused of all its processes

	f          *Field
	java       bool // a member of Kafka's own client, which has no proxies
	lives      []*life
	exits      atomic.Int32
	generation atomic.Int32
	outside    atomic.Int32
}

// life is one process of a member.
type life struct {
	number int
	name   string // of the member and the number
	log    string // path of the recorder's file
	proc   *kafkatest.Process
	killed bool
	ending atomic.Bool   // the process may end
	done   chan struct{} // closed when its last event was added
}

// Member returns a member that is yet to be started.
func (f *Field) Member(name string) *Member {
	f.TB.Helper()
	tap, err := wiretap.NewCluster(f.Cluster.Addrs)
	if err != nil {
		f.TB.Fatal(err)
	}
	f.TB.Cleanup(func() {
		if err := errors.Join(tap.Err(), tap.Close()); err != nil {
			f.TB.Error(err)
		}
	})
	m := &Member{Name: name, App: f.App, Tap: tap, Refusals: wiretap.WatchRefusals(tap), f: f}
	tap.OnRequest(m.sees)
	f.members = append(f.members, m)
	return m
}

// sees notes the generation under which the member writes. The proxy reports what it cannot decode.
func (m *Member) sees(r wiretap.Request) {
	switch kmsg.Key(r.Key) {
	case kmsg.TxnOffsetCommit, kmsg.OffsetCommit:
	default:
		return
	}
	req, err := r.Decoded()
	if err != nil {
		return
	}
	switch req := req.(type) {
	case *kmsg.TxnOffsetCommitRequest:
		m.generation.Store(req.Generation)
	case *kmsg.OffsetCommitRequest:
		m.generation.Store(req.Generation)
		m.outside.Add(1)
	}
}

// Generation is the one under which the member has sent its last offset, 0 before the first.
func (m *Member) Generation() int32 { return m.generation.Load() }

// OutsideCommits is how many requests of the member have committed an offset outside a transaction.
func (m *Member) OutsideCommits() int { return int(m.outside.Load()) }

// PartitionOf returns the input partition that a request to end a transaction is about.
func (m *Member) PartitionOf(r wiretap.Request) int32 {
	m.f.TB.Helper()
	req, err := r.Decoded()
	m.must(err)
	end, ok := req.(*kmsg.EndTxnRequest)
	for p := range m.f.Partitions {
		if ok && end.TransactionalID == m.f.TransactionalID(p) {
			return p
		}
	}
	m.f.TB.Fatalf("%s sends %s, which is about no partition", m.Name, r.Name())
	return -1
}

// Exits is how many processes of the member have ended though nobody has ended them.
func (m *Member) Exits() int { return int(m.exits.Load()) }

// Is accepts events of the member's present process that is accepts.
func (m *Member) Is(is func(Event) bool) func(Event) bool {
	life := len(m.lives)
	return func(e Event) bool { return e.Member == m.Name && e.Life == life && is(e) }
}

// Start starts a process, and does not wait for what it does.
func (m *Member) Start() {
	m.f.TB.Helper()
	l := &life{number: len(m.lives) + 1, done: make(chan struct{})}
	l.name = fmt.Sprintf("%s.%d", m.Name, l.number)
	l.log = filepath.Join(m.f.dir, l.name+".jsonl")
	if m.java {
		m.startJava(l)
	} else {
		app := m.App
		app.Via = m.Tap.Map()
		l.proc = kafkatest.StartChild(m.f.TB, childName, childArg{App: app, Name: l.name, Log: l.log})
	}
	m.lives = append(m.lives, l)
	m.f.TB.Cleanup(func() { <-l.done }) // the test's context has ended by then
	go m.f.log.follow(m.f.TB, m, l)
}

// Owns waits until the present process has a partition that is restored.
func (m *Member) Owns() {
	m.f.TB.Helper()
	m.f.Await("a partition for "+m.Name, 0, 1, m.Is(Kinds(holdfasttest.EventRestored)))
}

// AwaitCommit waits for a commit of the present process after mark.
func (m *Member) AwaitCommit(mark int) Event {
	m.f.TB.Helper()
	return m.f.Await("a commit of "+m.Name, mark, 1, m.Is(Kinds(holdfasttest.EventCommitted)))[0]
}

// Process is the present process.
func (m *Member) Process() *kafkatest.Process { return m.life().proc }

func (m *Member) life() *life {
	m.f.TB.Helper()
	if len(m.lives) == 0 {
		m.f.TB.Fatalf("%s was never started", m.Name)
	}
	return m.lives[len(m.lives)-1]
}

// Running reports whether a process was started that has not ended.
func (m *Member) Running() bool {
	if len(m.lives) == 0 {
		return false
	}
	select {
	case <-m.life().done:
		return false
	default:
		return true
	}
}

func (m *Member) must(err error) {
	m.f.TB.Helper()
	if err != nil {
		m.f.TB.Fatalf("%s: %v", m.Name, err)
	}
}

// Kill ends the process with SIGKILL, and waits for its end.
func (m *Member) Kill() {
	m.f.TB.Helper()
	l := m.life()
	l.killed = true
	l.ending.Store(true)
	m.must(l.proc.Kill())
	<-l.done
}

// Pause stops the process with SIGSTOP.
func (m *Member) Pause() { m.f.TB.Helper(); m.must(m.life().proc.Pause()) }

// Cont lets a paused process go on.
func (m *Member) Cont() { m.f.TB.Helper(); m.must(m.life().proc.Cont()) }

// Terminate asks the process to end, with SIGTERM, and does not wait.
func (m *Member) Terminate() {
	m.f.TB.Helper()
	l := m.life()
	l.ending.Store(true)
	m.must(syscall.Kill(l.proc.Pid(), syscall.SIGTERM))
}

// MayEnd has an end of the process be no fault: the test expects it.
func (m *Member) MayEnd() { m.f.TB.Helper(); m.life().ending.Store(true) }

// Wait waits for the end of a process that was asked to end, or may, and returns how it ended.
func (m *Member) Wait() error {
	m.f.TB.Helper()
	ctx, cancel := context.WithTimeout(m.f.TB.Context(), m.f.Patience)
	defer cancel()
	l := m.life()
	err := l.proc.Wait(ctx)
	if ctx.Err() != nil {
		m.f.TB.Fatal(err)
	}
	<-l.done
	return err
}

// Stop ends the process in order, and fails the test if that is not without an error.
func (m *Member) Stop() {
	m.f.TB.Helper()
	m.Terminate()
	m.Cont()
	m.must(m.Wait())
}

// Hold holds requests, or answers, of the member in its proxies.
func (m *Member) Hold(action wiretap.Action, match wiretap.Match) *wiretap.Fault {
	f := m.Tap.Fault(action, match)
	m.f.TB.Cleanup(f.Lift)
	return f
}

// HoldCommit holds the next request of the member to commit, before a broker sees it.
func (m *Member) HoldCommit() *wiretap.Fault {
	return m.Hold(wiretap.HoldRequest, wiretap.First(1, wiretap.All(wiretap.Keys(kmsg.EndTxn), wiretap.Committing)))
}

// Caught waits until a fault has applied to n requests, and returns them.
func (f *Field) Caught(fault *wiretap.Fault, n int) []wiretap.Request {
	f.TB.Helper()
	ctx, cancel := context.WithTimeout(f.TB.Context(), f.Patience)
	defer cancel()
	if err := fault.Await(ctx, n); err != nil {
		f.TB.Fatal(err)
	}
	return fault.Caught()
}

// Discard ends the connections of a member that is dead, with what is held on them.
func (m *Member) Discard(hold *wiretap.Fault) {
	m.Tap.Cut(func(string) bool { return true })
	hold.Lift()
}
