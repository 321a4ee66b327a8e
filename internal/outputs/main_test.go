package outputs

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) {
	// The tests wait for brokers most of the time: more of them than there are cores go side by side.
	// -parallel on the command line still wins.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	kafkatest.Main(m, kafkatest.Child{Name: "member", Run: runChild})
}

// childConfig is what a member in a process of its own is told.
type childConfig struct {
	Kind                 kind
	Addrs                []string
	Via                  map[string]string // advertised address → address to dial
	Group, Input, Output string
	Session, Rebalance   time.Duration
	TransactionTimeout   time.Duration
	Interval             time.Duration
	Concurrency          int
}

// child runs a member in a process that can be killed, through the tap.
func (l *lab) child(w *tap) *kafkatest.Process {
	l.t.Helper()
	return kafkatest.StartChild(l.t, "member", childConfig{
		Kind: l.kind, Addrs: l.k.Addrs, Via: w.Map(), Group: l.conf.Group, Input: l.conf.Input, Output: l.conf.Output,
		Session: l.conf.Member.SessionTimeout, Rebalance: l.conf.Member.RebalanceTimeout, Interval: l.conf.Commit.Interval,
		Concurrency: l.conf.Concurrency, TransactionTimeout: l.conf.Member.TransactionTimeout,
	})
}

// runChild tells its parent what happens: the event's name, the partition, and an offset.
func runChild(ctx context.Context, p *kafkatest.Parent) error {
	var c childConfig
	if err := p.Arg(&c); err != nil {
		return err
	}
	k := kafka.Config{Brokers: c.Addrs, Opts: []kgo.Opt{kgo.Dialer(wiretap.DialerFor(c.Via))}}
	m, err := settings{
		Kafka: k, Group: c.Group, Input: c.Input, Output: c.Output, Commit: holdfast.Commit{Interval: c.Interval},
		Member: holdfast.Member{
			SessionTimeout: c.Session, RebalanceTimeout: c.Rebalance, HeartbeatInterval: 300 * time.Millisecond,
			TransactionTimeout: c.TransactionTimeout,
		},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Concurrency: c.Concurrency,
		Hooks: []holdfast.Hooks{{
			Assigned:  func(e stream.Assigned) { _ = p.Event("assigned %d %d", e.Partition.Partition, e.Committed) },
			Restored:  func(e stream.Restored) { _ = p.Event("restored %d %d", e.Partition.Partition, e.Start) },
			Committed: func(e stream.Committed) { _ = p.Event("committed %d %d", e.Partition.Partition, e.Next) },
		}},
	}.build(c.Kind)
	if err != nil {
		return err
	}
	return m.Run(rule.Without(ctx, rule.FenceProbe))
}
