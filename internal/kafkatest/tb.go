package kafkatest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// shared is the broker of this test binary. It is package state because that is its very meaning:
// a JVM for each test would cost five seconds each.
var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Start returns the broker that all tests of the test binary share, or the cluster of
// HOLDFAST_BROKERS. The first call starts it. Tests must use topic, group and transactional ids of
// their own (UniqueName), and must not kill, pause or restart it: New is for those. When the test
// fails, the broker's warnings from its time are logged.
func Start(tb testing.TB) *Cluster {
	tb.Helper()
	shared.once.Do(func() {
		if addrs := os.Getenv("HOLDFAST_BROKERS"); addrs != "" {
			shared.cluster = &Cluster{Addrs: strings.Split(addrs, ",")}
			return
		}
		// Not the test's context: the broker outlives the test that happens to start it.
		shared.cluster, shared.err = Open(context.Background(), Options{})
	})
	needs(tb, shared.err)
	logOnFailure(tb, shared.cluster)
	return shared.cluster
}

// New starts a cluster for this test alone and closes it at the test's end. HOLDFAST_BROKERS does not
// apply.
func New(tb testing.TB, opts Options) *Cluster {
	tb.Helper()
	c, err := Open(tb.Context(), opts)
	needs(tb, err)
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("close the Kafka cluster: %v", err)
		}
	})
	logOnFailure(tb, c) // runs before the Close above removes the logs
	return c
}

// needs skips the test where Java or Maven is missing, except under CI: there a skipped test would
// look like a passed one.
func needs(tb testing.TB, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	if errors.Is(err, ErrTools) && os.Getenv("CI") == "" {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

func logOnFailure(tb testing.TB, c *Cluster) {
	from := make([]int64, len(c.Brokers))
	for i, b := range c.Brokers {
		from[i] = b.logSize()
	}
	tb.Cleanup(func() {
		if !tb.Failed() {
			return
		}
		for i, b := range c.Brokers {
			log, err := b.logSince(from[i])
			if err != nil {
				tb.Log(err)
				continue
			}
			if lines := warnings(log, 40); len(lines) > 0 {
				tb.Logf("broker %d:\n%s", b.ID, bytes.Join(lines, []byte("\n")))
			}
		}
	})
}

// warnings returns the last n lines that are not mere information.
func warnings(log []byte, n int) [][]byte {
	var lines [][]byte
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("WARN")) || bytes.Contains(line, []byte("ERROR")) || bytes.Contains(line, []byte("FATAL")) {
			line = bytes.TrimRight(line, "\n")
			lines = append(lines, line[:min(len(line), 500)]) // a failed fetch names every partition
		}
	}
	return lines[max(0, len(lines)-n):]
}

// Client returns a plaintext client of the cluster that is closed at the test's end. Options are
// applied after the package's own and win.
func (c *Cluster) Client(tb testing.TB, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	// With the stock MetadataMinAge a client waits up to 5 s to learn of a topic that was just created.
	cl, err := kgo.NewClient(slices.Concat([]kgo.Opt{
		kgo.SeedBrokers(c.Addrs...), kgo.MetadataMinAge(100 * time.Millisecond),
	}, opts)...)
	if err != nil {
		tb.Fatalf("Kafka client: %v", err)
	}
	tb.Cleanup(cl.Close)
	return cl
}

// CreateTopic creates a topic with the cluster's replication factor, waits until every partition has
// a leader that all brokers know, and returns the name. configs may be nil.
func (c *Cluster) CreateTopic(tb testing.TB, name string, partitions int32, configs map[string]string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	settings := make(map[string]*string, len(configs))
	for k, v := range configs {
		settings[k] = &v
	}
	// A request whose answer was late is sent again by the client, and then finds its own topic.
	_, err := kadm.NewClient(c.Client(tb)).CreateTopic(ctx, partitions, -1, settings, name)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		tb.Fatalf("create topic %s: %v", name, err)
	}
	for _, addr := range c.Addrs {
		if err := awaitLeaders(ctx, addr, name, int(partitions)); err != nil {
			tb.Fatalf("topic %s at %s: %v", name, addr, err)
		}
	}
	return name
}

// awaitLeaders asks one broker until it knows a leader for each partition: a broker learns of a topic
// some milliseconds after the controller has answered its creation. The request goes to this broker
// and past the client's cache.
func awaitLeaders(ctx context.Context, addr, topic string, partitions int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		led, err := countLeaders(ctx, cl.SeedBrokers()[0], topic)
		if led == partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d partitions have a leader (%v): %w", led, partitions, err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func countLeaders(ctx context.Context, broker *kgo.Broker, topic string) (int, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, broker)
	if err != nil {
		return 0, err
	}
	led := 0
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 && p.Leader >= 0 {
				led++
			}
		}
	}
	return led, nil
}

// UniqueName returns prefix with a random ending, for topics, groups and transactional ids of one test
// on a shared broker.
func UniqueName(prefix string) string {
	return prefix + "-" + strings.ToLower(rand.Text()[:10])
}

// closeShared stops the shared broker if there is one.
func closeShared() error {
	if shared.cluster == nil {
		return nil
	}
	return shared.cluster.Close()
}
