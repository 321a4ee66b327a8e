package main

import (
	"context"
	_ "embed"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

//go:embed streams/WordCount.java
var streamsProgram string

// TestKafkaSameCountsAsStreams runs both programs over the same lines on real Kafka: each counts every
// word up by one, from 1 to the same end.
func TestKafkaSameCountsAsStreams(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cluster := kafka.Config{Brokers: kafkatest.Start(t).Addrs}
	if err := write(ctx, cluster, "lines", "words", "counts", "counts-streams"); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"all": {"1"}, "hello": {"1"}, "join": {"1"}, "kafka": {"1", "2", "3"}, "lead": {"1"}, "streams": {"1", "2"}, "summit": {"1"}, "to": {"1"},
	}
	java := kafkatest.StartJava(t, kafkatest.Java{Class: "WordCount", Source: streamsProgram, Streams: true}, cluster.Brokers[0], "lines", "counts-streams")
	java.Await(t, "started", 2*time.Minute)
	run(t, ctx, cluster)
	for _, topic := range []string{"counts", "counts-streams"} {
		got := await(t, ctx, cluster, topic, 11)
		if !maps.EqualFunc(got, want, func(a, b []string) bool { return join(a) == join(b) }) {
			t.Errorf("%s has %v, want %v", topic, got, want)
		}
	}
}

func join(counts []string) (out string) {
	for _, c := range counts {
		out += c + " "
	}
	return out
}

// run runs both halves of ours until the test ends.
func run(t *testing.T, ctx context.Context, cluster kafka.Config) {
	t.Helper()
	split, err := splitter(cluster)
	if err != nil {
		t.Fatal(err)
	}
	count, err := counter(cluster, func(stream.Committed) {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 2)
	for _, run := range []func(context.Context) error{split.Run, count.Run} {
		go func() { ended <- run(ctx) }()
	}
	t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// await reads committed outputs, the counts of each word in their order, until there are n.
func await(t *testing.T, ctx context.Context, cluster kafka.Config, topic string, n int) map[string][]string {
	t.Helper()
	client, err := cluster.Client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(100*time.Millisecond), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got := map[string][]string{}
	for n > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s has only %v", topic, got)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
			n--
		})
	}
	return got
}
