package prove

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// rivalArgument makes the test binary the second process.
const rivalArgument = "prove-test-rival"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == rivalArgument {
		k := kafka.Config{Brokers: strings.Split(os.Args[2], ",")}
		if err := RunRival(context.Background(), k, os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// embedded is a cluster of one embedded broker with a topic of somebody else. It is no proof of fencing:
// what these tests are about is what a run does around its exercises.
type embedded struct {
	*kfake.Cluster
	o   Options
	adm *kadm.Client
}

const foreign = "payments"

func embed(t *testing.T, claims ...string) embedded {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, foreign), kfake.BrokerConfigs(map[string]string{
		"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k := kafka.Config{Brokers: c.ListenAddrs()}
	cl, err := k.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return embedded{Cluster: c, adm: kadm.NewClient(cl), o: Options{
		Kafka: k, Prefix: "p-", Replicas: 3, MinISR: 2, Claims: claims, Rival: []string{self, rivalArgument, strings.Join(k.Brokers, ",")},
	}}
}

// names returns all topics and groups.
func (e embedded) names(t *testing.T) []string {
	t.Helper()
	topics, err := e.adm.ListTopics(within(t))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := e.adm.ListGroups(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(topics)), groups.Groups()...)))
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestRunLeavesNothing(t *testing.T) {
	t.Parallel()
	e := embed(t, claim.Proofs()...)
	r, err := Run(within(t), e.o)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Exercises {
		if x.Verdict != Proved {
			t.Errorf("%s %s: %s", x.Name, x.Verdict, x.Why)
		}
	}
	if r.Proved != 5 || len(r.Cleaned.Topics) != 8 || len(r.Cleaned.Groups) != 3 || len(r.Cleaned.Left) != 0 || len(r.TransactionalIDs) != 4 {
		t.Errorf("report %+v", r)
	}
	if got := e.names(t); !slices.Equal(got, []string{foreign}) {
		t.Errorf("the cluster has %v", got)
	}
	if len(r.Weaker) != 2 || !strings.Contains(r.Weaker[0], "cluster id kfake") || !strings.Contains(r.Weaker[0], "no proof of a fencing claim") {
		t.Errorf("an imitation of Kafka is told as %q", r.Weaker)
	}
	if !strings.Contains(r.Weaker[len(r.Weaker)-1], "1 broker") || r.Replicas != 1 || r.MinISR != 1 {
		t.Errorf("one broker in place of three is told as %v, replication %d, min ISR %d", r.Weaker, r.Replicas, r.MinISR)
	}
}

// TestABrokerThatAcceptsStaleGenerationsIsRefuted runs an exercise against a broker without the rule.
func TestABrokerThatAcceptsStaleGenerationsIsRefuted(t *testing.T) {
	t.Parallel()
	e := embed(t, claim.ProveGeneration)
	e.ControlKey(int16(kmsg.TxnOffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		e.KeepControl()
		req := kreq.(*kmsg.TxnOffsetCommitRequest)
		if req.Topics[0].Partitions[0].Offset != generationOld {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		topic.Partitions = append(topic.Partitions, kmsg.NewTxnOffsetCommitResponseTopicPartition())
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	r, err := Run(within(t), e.o)
	if err != nil || r.Refuted != 1 || !strings.Contains(r.Exercises[0].Why, "accepted offset 20") {
		t.Errorf("report %+v, error %v", r, err)
	}
}

func TestWhatIsThereIsRefusedAndLeft(t *testing.T) {
	t.Parallel()
	e := embed(t, claim.ProveSends, claim.ProveAborted)
	e.o.Run = "20260102t030405-abcdef"
	there := name(e.o.Prefix, e.o.Run, sendsTopic)
	if _, err := e.adm.CreateTopic(within(t), 1, 1, nil, there); err != nil {
		t.Fatal(err)
	}
	r, err := Run(within(t), e.o)
	if !errors.Is(err, stream.ErrConfig) || !strings.Contains(err.Error(), there+" exists already") {
		t.Errorf("got %v", err)
	}
	if r.Proved != 0 || r.NotShown != 1 {
		t.Errorf("report %+v", r)
	}
	if got := e.names(t); !slices.Equal(got, []string{there, foreign}) {
		t.Errorf("the cluster has %v", got)
	}
}

// TestInterruptedRunCleansUp interrupts a run at each of its notes.
func TestInterruptedRunCleansUp(t *testing.T) {
	t.Parallel()
	stop := errors.New("interrupted")
	for _, at := range []string{"1/5 sends", "sending one event twice", "aborting a transaction", "joining group", "the first process",
		"making the group begin", "leaving a transaction open", "taking its id over"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			e := embed(t, claim.Proofs()...)
			ctx, cancel := context.WithCancelCause(within(t))
			defer cancel(nil)
			hit := false
			e.o.Progress = func(line string) {
				if strings.Contains(line, at) {
					hit = true
					cancel(stop)
				}
			}
			r, err := Run(ctx, e.o)
			if !hit || !errors.Is(err, stop) {
				t.Errorf("reached %v, error %v", hit, err)
			}
			if r.Refuted != 0 || len(r.Cleaned.Left) != 0 {
				t.Errorf("report %+v", r)
			}
			if got := e.names(t); !slices.Equal(got, []string{foreign}) {
				t.Errorf("the cluster has %v", got)
			}
		})
	}
}

func TestCleanTakesLeftoversOnly(t *testing.T) {
	t.Parallel()
	e := embed(t, claim.ProveSends)
	const old = "20260102t030405-abcdef"
	young := newRun(time.Now())
	leftovers := []string{name("p-", old, sendsTopic), name("p-", old, takeoverInput)}
	kept := []string{
		"p-orders", "p-" + old, "p-" + old + "-orders", "p-" + old + "-sends-2", "other-p-" + old + "-sends", "q-" + old + "-sends",
		name("p-", young, sendsTopic),
	}
	if _, err := e.adm.CreateTopics(within(t), 1, 1, nil, slices.Concat(leftovers, kept)...); err != nil {
		t.Fatal(err)
	}
	c, err := Clean(within(t), e.o)
	if !slices.Equal(c.Topics, leftovers) || err == nil || !strings.Contains(err.Error(), young) || len(c.Left) != 1 {
		t.Errorf("removed %+v, error %v", c, err)
	}
	if got, want := e.names(t), slices.Sorted(slices.Values(append(kept, foreign))); !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
}

// TestCleanLeavesAGroupWithMembers although the run began long ago.
func TestCleanLeavesAGroupWithMembers(t *testing.T) {
	t.Parallel()
	e := embed(t, claim.ProveSends)
	const old = "20260102t030405-abcdef"
	topic, group := name("p-", old, fencingInput), name("p-", old, fencingGroup)
	if _, err := e.adm.CreateTopic(within(t), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	joined := make(chan struct{}, 8)
	member, err := e.o.Kafka.Client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { joined <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	<-joined
	c, err := Clean(within(t), e.o)
	if err == nil || !strings.Contains(err.Error(), "has members") || len(c.Topics)+len(c.Groups) != 0 {
		t.Errorf("removed %+v, error %v", c, err)
	}
	member.Close()
	c, err = Clean(within(t), e.o)
	if err != nil || !slices.Equal(c.Topics, []string{topic}) || !slices.Equal(c.Groups, []string{group}) {
		t.Errorf("removed %+v, error %v", c, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	good := Options{Prefix: "p-", Replicas: 3, MinISR: 2, Claims: []string{claim.ProveSends}}
	for name, f := range map[string]func(*Options){
		"empty prefix":        func(o *Options) { o.Prefix = "" },
		"prefix with a slash": func(o *Options) { o.Prefix = "a/b" },
		"long prefix":         func(o *Options) { o.Prefix = strings.Repeat("a", maxPrefix+1) },
		"no replicas":         func(o *Options) { o.Replicas = 0 },
		"min ISR above them":  func(o *Options) { o.MinISR = 4 },
		"no exercise":         func(o *Options) { o.Claims = nil },
		"unknown exercise":    func(o *Options) { o.Claims = []string{"luck"} },
	} {
		if err := changed(good, f).check(); !errors.Is(err, stream.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for _, end := range slices.Concat(topicEnds, groupEnds) {
		if n := name(strings.Repeat("a", maxPrefix), newRun(time.Now()), end); len(n) > 249 {
			t.Errorf("%s is too long for a topic", n)
		}
	}
}

func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	o := Options{Kafka: kafka.Config{Brokers: []string{"b:1"}}, Prefix: "p-"}
	for _, c := range []struct {
		err  error
		want []string
	}{
		{kerr.TopicAuthorizationFailed, []string{"--operation Create", "--operation Delete", "--topic p-", "prefixed", "b:1"}},
		{kerr.GroupAuthorizationFailed, []string{"--operation Read", "--operation Delete", "--group p-", "prefixed"}},
		{kerr.TransactionalIDAuthorizationFailed, []string{"--operation Write", "--transactional-id p-", "prefixed", "--transactional-id holdfast-"}},
		{kerr.ClusterAuthorizationFailed, []string{"IdempotentWrite"}},
	} {
		err := explain(o, "prove", c.err)
		var named *stream.Error
		if !errors.Is(err, stream.ErrNotAuthorized) || !errors.As(err, &named) {
			t.Errorf("%v became %v", c.err, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(named.Hint, want) {
				t.Errorf("the hint of %v lacks %q: %s", c.err, want, named.Hint)
			}
		}
	}
	if err := explain(o, "prove", nil); err != nil {
		t.Errorf("nothing became %v", err)
	}
}
