package holdfasttest

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
)

// collectTimeout bounds what Verify reads.
const collectTimeout = 2 * time.Minute

// Verify reads what a run of m left on its cluster, and fails the test with each violation, its
// invariant's name first. The members must have stopped: tell it with Recorder.Stopped. What they
// recorded is judged as well.
func Verify(tb testing.TB, m Model, members ...Member) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), collectTimeout)
	defer cancel()
	h, err := Collect(ctx, m, members...)
	if err != nil {
		tb.Fatalf("history: %v", err)
	}
	for _, v := range Check(h, m) {
		tb.Error(v)
	}
}

// Broker returns a connection to an embedded broker that runs until the test ends, or to the cluster of
// HOLDFAST_BROKERS ("host:port,…"). The embedded one is no proof of a fencing claim: package devbroker
// lists how it differs from Apache Kafka. Topics are the test's to create.
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
	return b.Kafka()
}
