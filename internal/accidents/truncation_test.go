package accidents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/stream"
)

// unclean is a cluster whose brokers 1 and 2 have the only replicas of some topics. What is written
// while the second is away is lost when it is made the leader: an unclean election.
type unclean struct {
	t     *testing.T
	k     *kafkatest.Cluster
	admin *kadm.Client
	weak  []string // topics with replicas on brokers 1 and 2 alone
}

func newUnclean(t *testing.T) *unclean {
	t.Helper()
	k := kafkatest.New(t, kafkatest.Options{Brokers: 3, Properties: map[string]string{
		"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500",
	}})
	return &unclean{t: t, k: k, admin: kadm.NewClient(k.Client(t))}
}

// bounded is a context for one change of the cluster.
func (u *unclean) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(u.t.Context(), 2*patience)
}

// weaken makes a topic of one partition that an unclean election can truncate.
func (u *unclean) weaken(topic string, configs map[string]string) {
	u.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = []int32{1, 2}
	rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
	for name, value := range map[string]string{"min.insync.replicas": "1", "cleanup.policy": configs["cleanup.policy"]} {
		if value != "" {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = name, &value
			rt.Configs = append(rt.Configs, c)
		}
	}
	req.Topics = append(req.Topics, rt)
	ctx, cancel := u.bounded()
	defer cancel()
	resp, err := req.RequestWith(ctx, u.k.Client(u.t))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		u.t.Fatalf("create %s: %v", topic, err)
	}
	u.weak = append(u.weak, topic)
	u.await("a leader of "+topic, func(p kadm.PartitionDetail) bool { return p.Leader == 1 && len(p.ISR) == 2 })
}

// lab is a component whose input or whose snapshot or progress topic is weak.
func (u *unclean) lab(what kind, weakInput bool) *lab {
	u.t.Helper()
	l := newLab(u.t, u.k, what, 1)
	l.member = holdfast.Member{SessionTimeout: 45 * time.Second, RebalanceTimeout: time.Minute, HeartbeatInterval: time.Second}
	compact := map[string]string{"cleanup.policy": "compact"}
	l.group = u.coordinated(l)
	if weakInput {
		l.input += "-weak"
		u.weaken(l.input, nil)
		u.k.CreateTopic(u.t, l.progress(), 1, compact)
	} else {
		u.weaken(l.progress(), compact)
	}
	return l
}

// coordinated returns a name for the group of l whose coordinator is the broker that stays: a membership
// that ends with its coordinator has the member check its logs anew before it would meet the loss itself.
func (u *unclean) coordinated(l *lab) (group string) {
	u.t.Helper()
	var names []string
	for i := range 32 {
		names = append(names, fmt.Sprintf("%s-%d", l.group, i))
	}
	l.retried("find the coordinators", func(ctx context.Context) error {
		found := u.admin.FindGroupCoordinators(ctx, names...)
		for _, c := range found.Sorted() {
			if c.Err == nil && c.NodeID == 3 {
				group = c.Name
				return nil
			}
		}
		return errors.Join(found.Error(), errors.New("broker 3 coordinates none of the groups"))
	})
	return group
}

// await waits until the partition of each weak topic is accepted by is.
func (u *unclean) await(what string, is func(kadm.PartitionDetail) bool) {
	u.t.Helper()
	ctx, cancel := u.bounded()
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		m, err := u.admin.Metadata(ctx, u.weak...)
		done := err == nil
		for _, topic := range u.weak {
			if done && !is(m.Topics[topic].Partitions[0]) {
				done = false
			}
		}
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			u.t.Fatalf("%s: not within %v: %v (%v)", what, patience, m.Topics, err)
		}
	}
}

// forgetful takes the second broker away: it does not get what is written from here on.
func (u *unclean) forgetful() {
	u.t.Helper()
	ctx, cancel := u.bounded()
	defer cancel()
	if err := u.k.Brokers[1].Stop(ctx); err != nil {
		u.t.Fatal(err)
	}
	u.await("the first broker alone", func(p kadm.PartitionDetail) bool { return p.Leader == 1 && len(p.ISR) == 1 })
}

// truncate kills the first broker and has the second one lead: what this does not have is lost. The first
// one stays away.
func (u *unclean) truncate() {
	u.t.Helper()
	ctx, cancel := u.bounded()
	defer cancel()
	if err := errors.Join(u.k.Brokers[0].Kill(), u.k.Brokers[1].Restart(ctx)); err != nil {
		u.t.Fatal(err)
	}
	var all kadm.TopicsSet
	for _, topic := range u.weak {
		all.Add(topic, 0)
	}
	u.await("the second broker leads", func(p kadm.PartitionDetail) bool {
		if p.Leader != 2 { // an election by an operator, with data loss
			_, _ = u.admin.ElectLeaders(ctx, kadm.ElectLiveReplica, all)
		}
		return p.Leader == 2
	})
}

// between is one component that took ten records, and five more that an election loses.
type between struct {
	*lab
	weakInput bool
	before    *run
}

// An unclean election loses the end of the input, or of the snapshot or progress topic, while the
// component is down. The input has grown past the loss since: by offsets alone nobody could tell.
func TestKafkaTruncationBetweenRuns(t *testing.T) {
	nightly(t)
	u := newUnclean(t)
	var cases []between
	for _, what := range everyKind {
		for _, weakInput := range []bool{true, false} {
			l := u.lab(what, weakInput)
			l.ten()
			cases = append(cases, between{lab: l, weakInput: weakInput})
		}
	}
	held := heldBack(u)
	u.forgetful()
	for i := range cases {
		l := cases[i].lab
		l.produce(0, 10, 15)
		cases[i].before = l.start("loses")
		cases[i].before.committedTo(0, 15)
		cases[i].before.end()
	}
	held.ahead()
	u.truncate()
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s, weak input %t", c.kind, c.weakInput), func(t *testing.T) {
			c.lab.t = t
			if c.weakInput {
				c.inputLost()
			} else {
				c.snapshotsLost()
			}
		})
	}
	t.Run("applied ahead of the committed offset", held.lost)
}

func (c between) inputLost() {
	c.t.Helper()
	if _, end, _ := c.ends(c.input); end != 10 {
		c.t.Fatalf("the input ends at %d: it was not truncated to 10", end)
	}
	c.produce(0, 20, 30) // other records at the offsets of the lost ones, and past them
	c.refuses(stream.ErrTruncated, "the log of leader epoch", "ends at 10", "folded it up to 15", "Rebuild")
	c.policy = holdfast.Rebuild
	losses := append(again(10)[c.kind], fromTheOther(5)...)
	c.verdict(losses, c.finish(0, 20))
}

func (c between) snapshotsLost() {
	c.t.Helper()
	c.refuses(stream.ErrOffsetMismatch, "offset 15 is ahead of the", "10", "reset the group's offset")
	c.reset(10)
	c.produce(0, 15, 20)
	c.verdict(again(5)[c.kind], c.finish(10, 20))
}

// ahead is a flow in which one key's snapshot is ahead of the committed offset, which other keys hold
// back, when the input loses what lies between.
type ahead struct {
	f      *trial.Field
	member *trial.Member
}

// heldOutputs are those of records 2 to 6, which the input loses.
const heldOutputs = 5

// heldBack prepares it: nothing is persisted but what records 1, 6, 11 and so on ask for, of one key.
func heldBack(u *unclean) *ahead {
	u.t.Helper()
	app := trial.App{Kind: trial.Flow, Group: kafkatest.UniqueName("ahead"), Persist: time.Hour, Session: 45 * time.Second, Rebalance: time.Minute}
	app.Input = app.Group + "-weak"
	u.weaken(app.Input, nil)
	f := trial.New(u.t, u.k, app, 1)
	h := &ahead{f: f, member: f.Member("ahead")}
	h.member.Start()
	h.member.Owns()
	mark := f.Mark()
	f.Send(2)
	h.member.AwaitCommit(mark)
	return h
}

// ahead persists a key up to record 6, and is killed.
func (h *ahead) ahead() {
	mark := h.f.Mark()
	h.f.Send(5)
	h.member.AwaitCommit(mark)
	l := h.lab(h.f.TB.(*testing.T))
	l.until("the outputs are written", func() bool {
		_, end, _ := l.ends(l.output)
		return end == 1+heldOutputs // one is of the first two records
	})
	h.member.Kill()
}

// lab has the topics and the group in the hands of a test.
func (h *ahead) lab(t *testing.T) *lab {
	return &lab{t: t, k: h.f.Cluster, kind: states, admin: h.f.Admin, partitions: 1, input: h.f.App.Input, output: h.f.App.Output, group: h.f.App.Group}
}

// lost starts it again over an input in which other records have taken the lost offsets.
func (h *ahead) lost(t *testing.T) {
	h.f.TB = t
	next, err := h.f.Committed(t.Context())
	if err != nil || next[0] != 0 {
		t.Fatalf("committed %v (%v), want 0: the other keys are not persisted", next, err)
	}
	h.f.Send(23)
	h.member.Start()
	h.member.MayEnd()
	if err := h.member.Wait(); err == nil || !strings.Contains(err.Error(), stream.ErrTruncated.Error()) {
		t.Fatalf("the flow ended with %v, want a truncation: it would pass over other records as applied", err)
	}
	h.member.App.Start.Disagreement, h.member.App.Persist = holdfast.Rebuild, 60*time.Millisecond
	h.member.Start()
	h.member.Owns()
	h.lab(t).reaches(25) // two records are left of the first seven
	history := h.f.History()
	history.Members = history.Members[len(history.Members)-1:] // those before it have folded what is gone
	judge(t, holdfasttest.Check(history, h.f.App.Model()), fromTheOther(heldOutputs))
}
