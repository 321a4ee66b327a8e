package preflight

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// findings of one id.
func findings(f Found, id string) (out []claim.Finding) {
	for _, finding := range f.Report.Findings {
		if finding.ID == id {
			out = append(out, finding)
		}
	}
	return out
}

// one is the only finding of an id.
func one(t *testing.T, f Found, id string) claim.Finding {
	t.Helper()
	all := findings(f, id)
	if len(all) != 1 {
		t.Fatalf("%d findings %s, want 1:\n%s", len(all), id, f.Report)
	}
	return all[0]
}

// leaves makes sure that nothing of a probe is live: no group, no offset, no transaction that is open.
func leaves(t *testing.T, cl *kgo.Client, job Job) {
	t.Helper()
	admin := kadm.NewClient(cl)
	groups, err := admin.ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Groups() {
		if strings.HasPrefix(g, job.Group+"-probe-") {
			t.Errorf("group %s is left", g)
		}
	}
	txns, err := admin.ListTransactions(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for id, txn := range txns {
		if strings.Contains(id, job.Progress.Topic+"-probe-") {
			if seen++; txn.State == "Ongoing" {
				t.Errorf("transaction %s is %s", id, txn.State)
			}
		}
	}
	if seen == 0 {
		t.Error("no transactional id of a probe was used")
	}
}

// A broker that fences is found to, by a refusal and by the control beside it, in both protocols, and
// nothing is left. The rule switched off, nothing is asked.
func TestKafkaProbe(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	cl := k.Client(t)
	_, spoken, err := wire.LookupVersions(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	for protocol, serverSide := range map[string]bool{"classic": false, "consumer": true} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			if serverSide && (!spoken.ServerSide.Offered() || !spoken.ServerSide.Lenient()) {
				t.Skip("the brokers do not serve KIP-848 in Kafka 4.3's way")
			}
			name := kafkatest.UniqueName("probe")
			job := pipe(k.Addrs, name+"-group", k.CreateTopic(t, name, 2, nil))
			job.ServerSide = serverSide
			found, err := Inspect(t.Context(), job, Mode{Probe: true})
			if err != nil {
				t.Fatal(err)
			}
			f := one(t, found, ProbeID)
			if f.Level() != claim.LevelOK || !strings.Contains(f.Fact, "was refused (ILLEGAL_GENERATION)") && !strings.Contains(f.Fact, "was refused (STALE_MEMBER_EPOCH)") {
				t.Errorf("finding %+v", f)
			}
			t.Log(f.Fact)
			leaves(t, cl, job)
			off, err := Inspect(rule.Without(t.Context(), rule.FenceProbe), job, Mode{Probe: true})
			if err != nil || len(findings(off, ProbeID)) > 0 {
				t.Errorf("the rule switched off: %v\n%s", err, off.Report)
			}
		})
	}
}

// embedded is a probe's job on an embedded broker whose answers to TxnOffsetCommit change makes.
func embedded(t *testing.T, change func(*kmsg.TxnOffsetCommitRequest) *kerr.Error) (*kfake.Cluster, Job) {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	if change != nil {
		broker.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
			broker.KeepControl()
			asked := req.(*kmsg.TxnOffsetCommitRequest)
			code := change(asked)
			if code == kerr.UnknownServerError {
				return nil, nil, false // the broker's own answer
			}
			resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
			for _, topic := range asked.Topics {
				out := kmsg.NewTxnOffsetCommitResponseTopic()
				out.Topic, out.TopicID = topic.Topic, topic.TopicID
				for _, p := range topic.Partitions {
					answer := kmsg.NewTxnOffsetCommitResponseTopicPartition()
					answer.Partition = p.Partition
					if code != nil {
						answer.ErrorCode = code.Code
					}
					out.Partitions = append(out.Partitions, answer)
				}
				resp.Topics = append(resp.Topics, out)
			}
			return resp, nil, true
		})
	}
	return broker, pipe(broker.ListenAddrs(), "g", "in")
}

// What the probe makes of each answer: a broker that takes a stale generation refuses the start, and one
// that refuses everything, or answers with something else, proves nothing and is said to.
func TestProbeAnswers(t *testing.T) {
	t.Parallel()
	own := kerr.UnknownServerError // stands for the broker's own answer
	var calls atomic.Int32
	crossed := func(r *kmsg.TxnOffsetCommitRequest) *kerr.Error {
		if r.Generation == 1 {
			return kerr.IllegalGeneration
		}
		return nil
	}
	for _, c := range []struct {
		name   string
		answer func(*kmsg.TxnOffsetCommitRequest) *kerr.Error
		level  claim.Level
		says   string
	}{
		{"fences", func(*kmsg.TxnOffsetCommitRequest) *kerr.Error { return own }, claim.LevelOK, "an offset of generation 2 was refused (ILLEGAL_GENERATION)"},
		{"takes everything", func(*kmsg.TxnOffsetCommitRequest) *kerr.Error { return nil }, claim.LevelFault, "it took an offset of generation 2 in a group whose generation is 1"},
		{"a generation that has moved on", func(r *kmsg.TxnOffsetCommitRequest) *kerr.Error {
			if calls.Add(1) > 2 {
				return own
			}
			return crossed(r)
		}, claim.LevelOK, "an offset of generation 2 was refused (ILLEGAL_GENERATION)"},
		{"takes the wrong one", crossed, claim.LevelFault, "in two groups one after the other"},
		{"refuses everything", func(*kmsg.TxnOffsetCommitRequest) *kerr.Error { return kerr.IllegalGeneration }, claim.LevelWarning, "shows nothing"},
		{"refuses by something else", func(*kmsg.TxnOffsetCommitRequest) *kerr.Error { return kerr.InvalidTxnState }, claim.LevelWarning, "a stale generation was answered with"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broker, job := embedded(t, c.answer)
			found, err := Inspect(t.Context(), job, Mode{Probe: true, Create: true})
			all := findings(found, ProbeID)
			if len(all) != 1 {
				t.Fatalf("I3: %d findings tell whether a stale owner is refused, want 1:\n%s", len(all), found.Report)
			}
			f := all[0]
			if f.Level() != c.level || !strings.Contains(f.Text(), c.says) {
				t.Errorf("level %s, want %s with %q: %s", f.Level(), c.level, c.says, f.Text())
			}
			if fault := c.level == claim.LevelFault; errors.Is(err, stream.ErrBrokerDoesNotFence) != fault || !fault && err != nil || fault && found.Progress.Exists {
				t.Errorf("error %v, progress topic made: %v", err, found.Progress.Exists)
			}
			if c.level != claim.LevelOK && len(f.Fix) == 0 {
				t.Errorf("no fix: %+v", f)
			}
			cl, err := kafka.Config{Brokers: broker.ListenAddrs()}.Client()
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			leaves(t, cl, job)
		})
	}
}

// A coordinator that does not answer costs the start what the probe may take at most, and refuses
// nothing.
func TestProbeIsBounded(t *testing.T) {
	t.Parallel()
	broker, job := embedded(t, nil)
	broker.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		return nil, errors.New("cut"), true
	})
	cl, err := kafka.Config{Brokers: broker.ListenAddrs()}.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	i := &inspection{Job: job, client: cl, probing: 300 * time.Millisecond, found: Found{Inputs: []wire.Facts{{Topic: "in"}}}}
	if err := i.probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f := one(t, i.found, ProbeID); f.Level() != claim.LevelWarning || !strings.Contains(f.Text(), "taken on trust") {
		t.Errorf("finding %+v", f)
	}
	// Who is asked to stop meanwhile has not found that all is well, nor that nothing fences.
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if err := i.probe(ctx); !errors.Is(err, stopped) {
		t.Errorf("stopped: %v", err)
	}
}

// I7: brokers that were slow with everything else, because a coordinator is away, leave less of the time of a
// first contact than a probe may take. That refuses no start either.
func TestProbeAfterASlowContact(t *testing.T) {
	t.Parallel()
	broker, job := embedded(t, nil)
	for _, key := range []kmsg.Key{kmsg.DescribeGroups, kmsg.AddOffsetsToTxn, kmsg.JoinGroup} {
		broker.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			broker.KeepControl()
			return nil, errors.New("cut"), true
		})
	}
	i := &inspection{
		Job: job, contact: 2 * time.Second, patience: 600 * time.Millisecond, probing: 1500 * time.Millisecond,
		found: Found{Outputs: map[string]wire.Facts{}},
	}
	found, err := i.inspect(t.Context(), Mode{Probe: true, Create: true})
	if err != nil {
		t.Fatalf("the start is refused: %v\n%s", err, found.Report)
	}
	if f := one(t, found, ProbeID); f.Level() != claim.LevelWarning {
		t.Errorf("finding %+v", f)
	}
	if !found.Progress.Exists {
		t.Error("the progress topic was not made")
	}
}
