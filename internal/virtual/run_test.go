//go:build synctests

package virtual

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	// progressBound is how long after the last fault everything has to be committed (I7): the session of
	// a member that was killed, the rebalance that waits for a slow one, a transaction's timeout, the
	// longest pause before a partition is granted anew, and the client's own pauses.
	progressBound = time.Minute
	// endBound is how long Run may take once it was asked to end (I6).
	endBound = 30 * time.Second
)

// result is what one run came to.
type result struct {
	found   []holdfasttest.Violation
	trace   []string
	virtual time.Duration
	bitten  map[string]int // faults of single requests that met one
}

// run carries a plan out.
type run struct {
	*world
	plan   plan
	counts int // of members, for their names
	found  []holdfasttest.Violation
	later  []later

	strangers []func() // ends of their transactions
}

// later is what is done at a moment.
type later struct {
	at time.Time
	do func()
}

// runPlan carries a plan out in a bubble of its own and judges it. Rules in off are switched off.
func runPlan(t *testing.T, p plan, seen *states, off ...rule.Name) (res result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &run{world: newWorld(t, p.setting, p.seed, seen), plan: p}
		r.ctx = rule.Without(r.ctx, off...)
		seen.saw("run with " + p.setting.Member.Protocol.String())
		for range p.first {
			r.joins()
		}
		for _, s := range p.steps {
			r.until(r.began.Add(s.at))
			r.do(s)
		}
		r.finish()
		res.virtual = time.Since(r.began)
		res.found, res.trace = r.found, r.world.trace()
		res.bitten = map[string]int{}
		for _, m := range r.members {
			for name, n := range m.link.bitten() {
				res.bitten[name] += n
			}
		}
		r.close()
	})
	return res
}

// until waits for a moment, and does what is to be done before it.
func (r *run) until(at time.Time) {
	for {
		next, which := at, -1
		for i, l := range r.later {
			if l.at.Before(next) {
				next, which = l.at, i
			}
		}
		time.Sleep(time.Until(next))
		if which < 0 {
			return
		}
		do := r.later[which].do
		r.later = slices.Delete(r.later, which, which+1)
		do()
	}
}

func (r *run) after(d time.Duration, do func()) {
	r.later = append(r.later, later{time.Now().Add(d), do})
}

// bury has the group forget a member that was killed, if it has not by itself when Kafka would have. The
// embedded broker keeps one for ever whose connection ended while its JoinGroup waited: it then arms no
// session timer.
func (r *run) bury(m *member) {
	if id := m.id(); id != "" {
		r.states.saw("dead member that the embedded broker had kept")
		r.expel(id)
	}
}

func (r *run) joins() *member {
	r.counts++
	return r.start(fmt.Sprintf("m%d", r.counts))
}

// live returns the members that run. One that has ended by itself is told, once, and another one takes
// its place, as a supervisor would see to.
func (r *run) live() (live []*member) {
	for _, m := range r.members {
		if m.running() {
			live = append(live, m)
		}
	}
	if len(live) == 0 {
		live = append(live, r.joins())
	}
	return live
}

func (r *run) do(s step) {
	live := r.live()
	m := live[s.who%len(live)]
	switch s.what {
	case write:
		r.send(s.rs...)
	case discard:
		r.discard(s.rs...)
	case join:
		if len(live) < 3 {
			r.joins()
		}
	case leave:
		if len(live) > 1 {
			m.asked = true
			m.cancel()
		}
	case kill:
		m.kill()
		r.after(session+r.s.Member.RebalanceTimeout, func() { r.bury(m) })
	case expel:
		if id := m.id(); id != "" {
			r.expel(id)
		}
	case cutAll:
		r.outage(m, "", refusing, s.lasts)
	case silenceAll:
		r.outage(m, "", silent, s.lasts)
	case cutGroup:
		r.outage(m, r.coordinator(), refusing, s.lasts)
	case silenceGroup:
		r.outage(m, r.coordinator(), silent, s.lasts)
	case cutOne:
		r.outage(m, r.address(s.who), refusing, s.lasts)
	case silenceOne:
		r.outage(m, r.address(s.who), silent, s.lasts)
	case hang:
		r.hang(int32(s.who)%r.s.Partitions, s.lasts)
	case moveCoords:
		r.cluster.RehashCoordinators()
	case moveLeaders:
		r.cluster.ShufflePartitionLeaders()
	case frame:
		m.link.arm(frameFault{s.key, s.kind, s.lasts})
	case refuse:
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{s.key}, Err: s.err, Count: 1 + s.who%3})
	case slowHeeding:
		m.next(func(ctx context.Context) {
			select {
			case <-time.After(s.lasts):
			case <-ctx.Done():
			}
		})
	case slowNotHeeding:
		m.next(func(ctx context.Context) {
			time.Sleep(s.lasts)
			if ctx.Err() != nil {
				r.states.saw("user function outlived its ownership")
			}
		})
	}
}

func (r *run) outage(m *member, addr string, o outage, lasts time.Duration) {
	m.link.cut(addr, o)
	r.after(lasts, m.link.heal)
}

// address is that of one of the brokers.
func (r *run) address(which int) string {
	return fmt.Sprintf("127.0.0.1:%d", r.ports[which%len(r.ports)])
}

// hang has somebody who is no member write to the topic that the component restores from, in a transaction
// that he leaves open for a while and aborts.
func (r *run) hang(p int32, lasts time.Duration) {
	end := sync.OnceFunc(r.open(fmt.Sprint("stranger", len(r.strangers)), p))
	r.strangers = append(r.strangers, end)
	r.after(lasts, end)
}

// finish ends all faults, waits until everything is committed, ends all members, and judges.
func (r *run) finish() {
	for _, m := range r.members {
		if !m.killed {
			m.link.heal()
			m.link.disarm()
		}
	}
	for _, end := range r.strangers {
		end()
	}
	r.live()
	for p := range r.s.Partitions {
		r.send(record{partition: p, key: "last", value: "1"})
	}
	left := r.behind()
	for until := time.Now().Add(progressBound); len(left) > 0 && time.Now().Before(until); left = r.behind() {
		r.live()
		r.until(time.Now().Add(100 * time.Millisecond))
	}
	if len(left) > 0 {
		r.violate("I7", "everything was healed %v ago, and %v; %s", progressBound, left, r.groupText())
	}
	for _, m := range r.members {
		select {
		case <-m.done:
			if m.err != nil && !m.killed && !m.neverJoined() && !m.leftBehind() {
				r.violate("I6", "member %s ended by itself: %v", m.name, m.err)
			}
		default:
		}
	}
	for _, m := range r.stop(endBound) {
		r.violate("I6", "member %s has not ended within %v", m.name, endBound)
	}
	for _, m := range r.members {
		<-m.done
	}
	time.Sleep(endBound) // what was left behind returns, and nothing of it may be written
	h, found := r.judge()
	r.states.sawHistory(h)
	r.found = append(r.found, r.claimed(h, found)...)
}

// neverJoined reports whether the member met no broker at its start, which ends Run (docs/operations.md):
// whoever starts it starts it again.
func (m *member) neverJoined() bool {
	return errors.Is(m.err, stream.ErrUnreachable) && len(m.rec.Member().Events) <= 1
}

// leftBehind reports whether the member was asked to end, and Run did not wait for a user function that
// heeds nothing.
func (m *member) leftBehind() bool {
	if !m.asked || !errors.Is(m.err, stream.ErrFold) {
		return false
	}
	m.w.states.saw("end that left a user function behind")
	return true
}

func (r *run) violate(invariant, format string, args ...any) {
	r.found = append(r.found, holdfasttest.Violation{Invariant: invariant, Partition: stream.Partition{}, Offset: -1, What: fmt.Sprintf(format, args...)})
}
