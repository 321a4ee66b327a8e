//go:build synctests

package virtual

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// plan is what a seed comes to: a world, and what happens in it.
type plan struct {
	seed    uint64
	setting setting
	first   int // members at the start
	long    time.Duration
	steps   []step
}

// step is one thing that happens.
type step struct {
	at    time.Duration
	what  action
	who   int           // picks among the members that run
	lasts time.Duration // of an outage, of a slow function, of a late delivery
	key   kmsg.Key
	kind  frameKind
	err   *kerr.Error
	rs    []record
}

type action string

const (
	write          action = "write"
	discard        action = "write and abort"
	join           action = "join"
	leave          action = "leave"
	kill           action = "kill"
	expel          action = "expel"
	cutAll         action = "cut from all brokers"
	silenceAll     action = "hear nothing of any broker"
	cutGroup       action = "cut from the coordinator's broker"
	silenceGroup   action = "hear nothing of the coordinator's broker"
	cutOne         action = "cut from one broker"
	silenceOne     action = "hear nothing of one broker"
	hang           action = "a stranger's transaction hangs on the snapshots, or on the progress"
	moveCoords     action = "coordinators move"
	moveLeaders    action = "leaders move"
	frame          action = "fault of one request"
	refuse         action = "the broker refuses requests"
	slowHeeding    action = "slow function that heeds its context"
	slowNotHeeding action = "slow function that heeds nothing"
)

// faulty lists actions by weight. Those of the second list make stale owners, which Unfenced does not
// claim to stand.
var (
	calm = []action{
		write, write, write, write, write, write, write, discard, join, join, leave, kill, moveCoords, moveLeaders, slowHeeding,
	}
	rough = append([]action{
		cutAll, silenceAll, cutGroup, silenceGroup, cutOne, silenceOne, silenceOne, hang, expel, expel, frame, frame, frame, frame, refuse, slowNotHeeding, slowNotHeeding,
	}, calm...)
)

// framed are the requests that single faults are about.
var framed = []kmsg.Key{
	kmsg.EndTxn, kmsg.EndTxn, kmsg.EndTxn, kmsg.TxnOffsetCommit, kmsg.InitProducerID, kmsg.Produce, kmsg.OffsetFetch,
	kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.AddPartitionsToTxn, kmsg.ListOffsets, kmsg.Fetch,
}

// refusals are what brokers answer for a while.
var refusals = []struct {
	err  *kerr.Error
	keys []kmsg.Key
}{
	{kerr.CoordinatorLoadInProgress, []kmsg.Key{kmsg.EndTxn, kmsg.TxnOffsetCommit, kmsg.InitProducerID, kmsg.Heartbeat}},
	{kerr.NotCoordinator, []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.InitProducerID, kmsg.JoinGroup, kmsg.Heartbeat}},
	{kerr.ConcurrentTransactions, []kmsg.Key{kmsg.InitProducerID}},
	{kerr.UnstableOffsetCommit, []kmsg.Key{kmsg.OffsetFetch}},
	{kerr.NotEnoughReplicas, []kmsg.Key{kmsg.Produce}},
	{kerr.RequestTimedOut, []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.Produce}},
	{kerr.UnknownServerError, []kmsg.Key{kmsg.EndTxn}},
}

// session is that of the members, whoever decides on it.
const session = 2 * time.Second

// planOf returns what a seed comes to.
func planOf(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := plan{seed: seed, first: 1 + r.IntN(2), long: between(r, 15*time.Second, 40*time.Second)}
	p.setting = setting{
		Partitions: 1 + r.Int32N(4), Brokers: 3, OldBrokers: r.IntN(5) == 0, Delay: between(r, time.Millisecond, 12*time.Millisecond),
		Member: holdfast.Member{
			SessionTimeout: session, HeartbeatInterval: 400 * time.Millisecond, RebalanceTimeout: 4 * time.Second,
			TransactionTimeout: 3 * time.Second, QueueRecords: 20,
		},
		Commit: holdfast.Commit{
			Interval: between(r, 50*time.Millisecond, 400*time.Millisecond), Persist: between(r, 100*time.Millisecond, 1500*time.Millisecond),
			PersistCooldown: 10 * time.Millisecond, MaxWrites: 1 + r.IntN(40),
		},
	}
	actions := rough
	switch r.IntN(9) {
	case 0, 1, 2:
	case 3, 4, 5:
		p.setting.Guarantee, p.setting.Commit.Persist = holdfast.FencedOutputs, 0
	case 6, 7:
		p.setting.Pipe, p.setting.Concurrency = true, 1+r.IntN(4)
		p.setting.Commit.Persist, p.setting.Commit.PersistCooldown = 0, 0
	case 8:
		p.setting.Guarantee, actions = holdfast.Unfenced, calm
	}
	p.setting.speak(protocolOf(seed, p.setting.OldBrokers))
	copies := rand.New(rand.NewPCG(seed, 3)) // drawn apart, as the protocol is
	p.setting.NoClone = !p.setting.Pipe && copies.IntN(2) == 0
	for at := time.Duration(0); at < p.long; at += between(r, 20*time.Millisecond, 1200*time.Millisecond) {
		p.steps = append(p.steps, stepOf(r, actions, at, p.setting.Partitions, p.setting.Member.Protocol))
	}
	if p.setting.NoClone && copies.IntN(3) == 0 { // more than half of the records fail
		for _, s := range p.steps {
			for i := range s.rs {
				if copies.IntN(2) == 0 {
					s.rs[i].value = "bad"
				}
			}
		}
	}
	return p
}

// protocolOf is drawn apart, so that the rest of a seed's schedule does not depend on it.
func protocolOf(seed uint64, oldBrokers bool) fence.Protocol {
	switch r := rand.New(rand.NewPCG(seed, 2)); r.IntN(5) {
	case 0:
		return fence.Eager
	case 1, 2:
		if !oldBrokers {
			return fence.ServerSide
		}
	}
	return fence.Cooperative
}

// speak sets the protocol. Under KIP-848 the brokers have the times that a member of the others brings.
func (s *setting) speak(p fence.Protocol) {
	if s.Member.Protocol = p; p != fence.ServerSide {
		return
	}
	s.BrokerConf = map[string]string{
		"group.consumer.session.timeout.ms":    fmt.Sprint(s.Member.SessionTimeout.Milliseconds()),
		"group.consumer.heartbeat.interval.ms": fmt.Sprint(s.Member.HeartbeatInterval.Milliseconds()),
	}
	s.Member.SessionTimeout, s.Member.HeartbeatInterval = 0, 0
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// spoken is the request that does under a protocol what key does under the classic ones.
func spoken(key kmsg.Key, p fence.Protocol) kmsg.Key {
	switch key {
	case kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup:
		if p == fence.ServerSide {
			return kmsg.ConsumerGroupHeartbeat
		}
	}
	return key
}

func stepOf(r *rand.Rand, actions []action, at time.Duration, partitions int32, protocol fence.Protocol) step {
	s := step{at: at, what: actions[r.IntN(len(actions))], who: r.IntN(1 << 16)}
	switch s.what {
	case write, discard:
		for range 1 + r.IntN(8) {
			s.rs = append(s.rs, recordOf(r, partitions))
		}
	case cutAll, silenceAll, cutGroup, silenceGroup, cutOne, silenceOne, hang:
		s.lasts = between(r, 50*time.Millisecond, 6*time.Second)
	case slowHeeding:
		s.lasts = between(r, 50*time.Millisecond, 1500*time.Millisecond)
	case slowNotHeeding:
		s.lasts = between(r, 50*time.Millisecond, 9*time.Second)
	case frame:
		s.key, s.kind, s.lasts = framed[r.IntN(len(framed))], frameKind(r.IntN(5)), between(r, time.Millisecond, 3*time.Second)
		s.key = spoken(s.key, protocol)
		if s.key != kmsg.EndTxn {
			s.kind %= answerFenced
		}
	case refuse:
		f := refusals[r.IntN(len(refusals))]
		s.err, s.key = f.err, spoken(f.keys[r.IntN(len(f.keys))], protocol)
	}
	return s
}

// recordOf makes keys that are few, so that each is deleted and comes again.
func recordOf(r *rand.Rand, partitions int32) record {
	p := r.Int32N(partitions)
	rec := record{partition: p, key: fmt.Sprintf("k%d-%d", p, r.IntN(4)), value: fmt.Sprint(r.IntN(90))}
	switch r.IntN(10) {
	case 0, 1:
		rec.value = "del"
	case 2:
		rec.value = "bad"
	case 3, 4:
		rec.value += "now"
	}
	return rec
}

func (s step) String() string {
	text := fmt.Sprintf("%10v %s", s.at.Round(time.Millisecond), s.what)
	switch {
	case s.rs != nil:
		var all []string
		for _, r := range s.rs {
			all = append(all, fmt.Sprintf("%s=%s", r.key, r.value))
		}
		text += ": " + strings.Join(all, " ")
	case s.what == frame:
		text += fmt.Sprintf(": %s %v, %v", s.key.Name(), s.kind, s.lasts)
	case s.what == refuse:
		text += fmt.Sprintf(": %s with %s", s.key.Name(), s.err.Message)
	case s.lasts > 0:
		text += fmt.Sprintf(" for %v", s.lasts)
	}
	return text
}

func (p plan) lines() []string {
	s := p.setting
	kind := s.Guarantee.String()
	if s.Pipe {
		kind = fmt.Sprintf("pipe of %d calls", s.Concurrency)
	}
	if s.NoClone {
		kind += " without Clone"
	}
	out := []string{fmt.Sprintf("seed %d: %s, %v, %d partitions, old brokers %t, delay %v, commit %+v, %d members at first", p.seed, kind, s.Member.Protocol, s.Partitions, s.OldBrokers, s.Delay, s.Commit, p.first)}
	for _, s := range p.steps {
		out = append(out, s.String())
	}
	return out
}
