package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// A start that is refused leaves nothing behind, and Check and Run refuse the same, with a next step
// that helps on this cluster.
func TestRefusedStartCreatesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		outputs  []string
		replicas int16
		says     []string
	}{
		{"an output is missing", []string{"out"}, 0, []string{"topic is not usable: the output topic does not exist", "--replication-factor 1"}},
		{"more replicas than brokers", nil, 3, []string{"topic is not usable: it does not exist", "set Snapshots.Create.Replicas to 1 or less"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in"))
			if err != nil {
				t.Fatal(err)
			}
			defer broker.Close()
			k := kafka.Config{Brokers: broker.ListenAddrs()}
			flow, err := holdfast.New(holdfast.Config[string]{
				Kafka: k, Group: "flow", Inputs: []string{"in"}, Outputs: c.outputs, Codec: codec.String(),
				Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{Replicas: c.replicas}},
				Fold:      func(context.Context, *holdfast.Key[string], stream.Record) error { return nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			report, checked := flow.Check(t.Context())
			ran := flow.Run(t.Context())
			for who, err := range map[string]error{"Check": checked, "Run": ran} {
				if !errors.Is(err, holdfast.ErrTopic) {
					t.Fatalf("%s: %v, want %v", who, err, holdfast.ErrTopic)
				}
				for _, part := range c.says {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%s: error %q does not say %q", who, err, part)
					}
				}
			}
			if text := report.String(); strings.Contains(text, "claim ") || !strings.Contains(text, "FAIL  ") {
				t.Errorf("the report of a refused start has claims, or no FAIL:\n%s", text)
			}
			cl, err := k.Client(kgo.ClientID("look"))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			topics, err := kadm.NewClient(cl).ListTopics(t.Context())
			if err != nil || len(topics) != 1 {
				t.Errorf("topics %v, %v: want the input alone", topics.Names(), err)
			}
		})
	}
}

// Topics that are not replicated start a flow, and are told to be outside of what is claimed.
func TestReportWarnsAndWraps(t *testing.T) {
	t.Parallel()
	s := open("in")
	defer s.close()
	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka: s.Kafka(), Group: "flow", Inputs: []string{"in"}, Codec: codec.String(), Snapshots: created,
		Fold: func(context.Context, *holdfast.Key[string], stream.Record) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	report, err := flow.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := report.String()
	for _, part := range []string{"warn  input topic in: ", "it is not replicated", "claim topic → state"} {
		if !strings.Contains(text, part) {
			t.Errorf("the report does not say %q:\n%s", part, text)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "claim ") || strings.HasPrefix(line, "      ") {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("a claim's line has %d characters: %s", n, line)
			}
		}
	}
}

// What the group has committed is compared with the snapshots: a start that would stop at its first assignment
// is a fault of the check, and a disagreement beside members that run is a warning.
func TestCheckComparesOffsets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		commit  int64 // by another program; -1: nothing
		members bool
		change  func(*holdfast.Config[string])
		level   claim.Level
		says    string
	}{
		{"nothing is committed", -1, false, nil, claim.LevelOK, "agree"},
		{"by another program", 7, false, nil, claim.LevelFault, "which no flow has"},
		{"by another program, which runs", 7, true, nil, claim.LevelWarning, "the next owner of such a partition would stop"},
		{"adopted", 7, false, func(c *holdfast.Config[string]) { c.Start.Disagreement = holdfast.AdoptEmpty }, claim.LevelOK, "agree"},
		{"rebuilt", 7, false, func(c *holdfast.Config[string]) { c.Start.Disagreement = holdfast.Rebuild }, claim.LevelOK, "agree"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open("in")
			defer s.close()
			k := s.Kafka()
			conf := holdfast.Config[string]{
				Kafka: k, Group: "flow", Inputs: []string{"in"}, Codec: codec.String(), Snapshots: created,
				Fold: func(context.Context, *holdfast.Key[string], stream.Record) error { return nil },
			}
			if c.change != nil {
				c.change(&conf)
			}
			cl, err := k.Client()
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}, "flow-snapshots"); err != nil {
				t.Fatal(err)
			}
			if c.commit >= 0 { // where the input has something
				fill(t, cl, c.commit)
				if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), "flow", kadm.Offsets{"in": {0: kadm.Offset{Topic: "in", At: c.commit, LeaderEpoch: -1}}}); err != nil {
					t.Fatal(err)
				}
			}
			if c.members {
				defer joinPlain(t, k)()
			}
			flow, err := holdfast.New(conf)
			if err != nil {
				t.Fatal(err)
			}
			report, err := flow.Check(t.Context())
			if (err != nil) != (c.level == claim.LevelFault) || err != nil && !errors.Is(err, holdfast.ErrOffsetMismatch) {
				t.Errorf("Check: %v", err)
			}
			for _, f := range report.Findings {
				if f.ID == "group" && c.members && (f.Level() != claim.LevelWarning || !strings.Contains(f.Text(), `by "range"`)) {
					t.Errorf("members with another assignor: %+v", f)
				}
				if f.ID == "offsets" {
					if f.Level() != c.level || !strings.Contains(f.Text(), c.says) || f.Level() != claim.LevelOK && len(f.Fix) == 0 {
						t.Errorf("finding %+v", f)
					}
					return
				}
			}
			t.Errorf("no finding about offsets:\n%s", report)
		})
	}
}

// joinPlain has a consumer of another program join the group of the flow.
func joinPlain(t *testing.T, k kafka.Config) (leave func()) {
	t.Helper()
	other, err := k.Client(kgo.ConsumerGroup("flow"), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit(), kgo.Balancers(kgo.RangeBalancer()))
	if err != nil {
		t.Fatal(err)
	}
	for id := ""; id == ""; id, _ = other.GroupMetadata() {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		other.PollFetches(ctx)
		cancel()
	}
	return other.Close
}

// fill writes n records to the input.
func fill(t *testing.T, cl *kgo.Client, n int64) {
	t.Helper()
	for range n {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}
