package holdfasttest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
)

// collectTimeout bounds what Verify reads.
const collectTimeout = 2 * time.Minute

// told is how many violations Verify tells: one defect early in a run makes everything after it differ.
const told = 50

// Verify reads what a run of m left on its cluster, and fails the test with each violation, its
// invariant's name first. The members must have stopped: tell it with Recorder.Stopped. What they
// recorded is judged as well.
//
// Verify expects the whole input to be committed (I7), unless a member has told that it ended with an
// error. For a run that was interrupted early, call Collect, say why in History.Unfinished, and give the
// history to Check.
func Verify(tb testing.TB, m Model, members ...Member) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), collectTimeout)
	defer cancel()
	h, err := Collect(ctx, m, members...)
	if err != nil {
		tb.Fatalf("history: %v", err)
	}
	vs := Check(h, m)
	for i, v := range vs {
		if i == told {
			tb.Errorf("and %d more", len(vs)-told)
			break
		}
		tb.Error(v)
	}
}

// Broker returns a connection to an embedded broker that runs until the test ends, or to the cluster of
// HOLDFAST_BROKERS ("host:port,…"). The embedded one is no proof of a fencing claim: package devbroker
// lists how it differs from Apache Kafka. It takes session timeouts from 100 ms on. Topics are the test's
// to create.
func Broker(tb testing.TB) kafka.Config {
	tb.Helper()
	if addrs := os.Getenv("HOLDFAST_BROKERS"); addrs != "" {
		return kafka.Config{Brokers: strings.Split(addrs, ","), Opts: []kgo.Opt{kgo.MetadataMinAge(100 * time.Millisecond)}}
	}
	b, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		tb.Fatalf("embedded broker: %v", err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Errorf("close the embedded broker: %v", err)
		}
	})
	if err := shortSessions(tb.Context(), b.Kafka()); err != nil {
		tb.Fatalf("embedded broker: %v", err)
	}
	return b.Kafka()
}

// shortSessions lets members have session timeouts that suit tests.
func shortSessions(ctx context.Context, k kafka.Config) error {
	cl, err := k.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	least := "100"
	changed, err := kadm.NewClient(cl).AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: "group.min.session.timeout.ms", Value: &least}})
	for _, c := range changed {
		err = errors.Join(err, c.Err)
	}
	return err
}
