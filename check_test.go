package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
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
