package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func good() holdfast.Config[int] {
	return holdfast.Config[int]{
		Kafka: kafka.Config{Brokers: []string{"127.0.0.1:1"}}, Group: "ledger", Inputs: []string{"payments"}, Outputs: []string{"balances"},
		Codec: codec.JSON[int](),
		Fold:  func(context.Context, *holdfast.Key[int], stream.Record) error { return nil },
	}
}

// Each fault of a configuration is found before anything is asked of a broker, and named by its field.
func TestNewNamesEveryFault(t *testing.T) {
	t.Parallel()
	if _, err := holdfast.New(good()); err != nil {
		t.Fatalf("a good configuration is refused: %v", err)
	}
	type config = holdfast.Config[int]
	all := good()
	var words []string
	for _, c := range []struct {
		word  string
		spoil func(*config)
	}{
		{"broker", func(c *config) { c.Kafka.Brokers = nil }},
		{"Group", func(c *config) { c.Group = "" }},
		{"Inputs", func(c *config) { c.Inputs = []string{"payments", "refunds"} }},
		{"Codec", func(c *config) { c.Codec = nil }},
		{"Fold is", func(c *config) { c.Fold = nil }},
		{"Guarantee(7)", func(c *config) { c.Guarantee = 7 }},
		{"empty topic", func(c *config) { c.Outputs = []string{""} }},
		{"cleanup.policy", func(c *config) {
			c.Snapshots.Create = &holdfast.TopicConfig{Configs: map[string]string{"cleanup.policy": "delete"}}
		}},
		{"Start.New", func(c *config) { c.Start.New = 7 }},
		{"Start.Disagreement", func(c *config) { c.Start.Disagreement = -1 }},
		{"Commit.OnPersistError", func(c *config) { c.Commit.OnPersistError = 7 }},
		{"Member.HeartbeatInterval", func(c *config) { c.Member.HeartbeatInterval = time.Hour }},
		{"Member.SessionTimeout", func(c *config) { c.Member.SessionTimeout = 2 * time.Hour }},
		{"Member.TransactionTimeout", func(c *config) { c.Member.TransactionTimeout = time.Minute }},
		{"Commit.RevokeBudget", func(c *config) { c.Commit.RevokeBudget = time.Hour }},
		{"Commit.Persist", func(c *config) { c.Commit.Persist = -time.Second }},
		{"Commit.MaxWrites", func(c *config) { c.Commit.MaxWrites = -1 }},
	} {
		one := good()
		c.spoil(&one)
		c.spoil(&all)
		words = append(words, c.word)
		if _, err := holdfast.New(one); !errors.Is(err, holdfast.ErrConfig) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("got %v, want a fault that names %s", err, c.word)
		}
	}
	_, err := holdfast.New(all)
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("of all faults at once, %s is not named: %v", word, err)
		}
	}
	for name, spoil := range map[string]func(*config){
		"Snapshots.Topic": func(c *config) { c.Snapshots.Topic = "payments" },
		"output topic":    func(c *config) { c.Outputs = []string{"payments"} },
		"Start.Time":      func(c *config) { c.Start.New = holdfast.AtTime },
		// The name that is derived from the group is checked as one that was written down.
		`Snapshots.Topic is "team/flow-snapshots"`: func(c *config) { c.Group = "team/flow" },
		"derived from the group":                   func(c *config) { c.Group = strings.Repeat("g", 240) },
		`topics "balances.v1-snapshots" and "balances_v1-snapshots" cannot exist side by side`: func(c *config) {
			c.Group, c.Outputs = "balances.v1", []string{"balances_v1-snapshots"}
		},
		`topic "pay ments" has a name`: func(c *config) { c.Inputs = []string{"pay ments"} },
	} {
		one := good()
		spoil(&one)
		if _, err := holdfast.New(one); !errors.Is(err, holdfast.ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want a fault that names %s", err, name)
		}
	}
}

// A broker whose TxnOffsetCommit carries no generation cannot fence: a fenced flow is refused, and one
// that does not want the fence is not.
func TestBrokerThatCannotFence(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(kversion.V2_4_0()),
		kfake.SeedTopics(1, "payments", "balances"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	for _, c := range []struct {
		guarantee holdfast.Guarantee
		refused   bool
	}{{holdfast.FencedState, true}, {holdfast.Unfenced, false}} {
		conf := good()
		conf.Kafka.Brokers, conf.Guarantee = cluster.ListenAddrs(), c.guarantee
		conf.Snapshots.Create = &holdfast.TopicConfig{}
		f, err := holdfast.New(conf)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Check(t.Context())
		if errors.Is(err, holdfast.ErrBrokerTooOld) != c.refused {
			t.Errorf("%v: %v, want it refused as too old: %v", c.guarantee, err, c.refused)
		}
		if e := (*holdfast.Error)(nil); c.refused && (!errors.As(err, &e) || !strings.Contains(e.Hint, "2.5")) {
			t.Errorf("%v has no next step", err)
		}
		if !c.refused {
			continue
		}
		if err := f.Run(t.Context()); !errors.Is(err, holdfast.ErrBrokerTooOld) {
			t.Errorf("Run: %v, want it refused as too old", err)
		}
	}
}
