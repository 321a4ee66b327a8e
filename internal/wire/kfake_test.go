package wire

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The embedded broker serves the demo and the users' tests, so everything here has to work on it too.
func TestEmbeddedBroker(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.ListenAddrs()...))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	w := writer{t, client(kgo.TransactionalID("w"), kgo.TransactionTimeout(time.Minute)), "state"}
	l := Log{Client: client(), Topic: "state"}
	w.commit("a", "b")
	w.abort("c")
	end := stableEnd(t, l)
	if keys, position := readKeys(t, l, ReadOptions{To: end, Committed: true}); strings.Join(keys, " ") != "a b" || position != end {
		t.Errorf("got %q up to %d, want a b up to %d", keys, position, end)
	}
	w.open("d")
	if holders, err := l.Holders(within(t, 20*time.Second)); err != nil || len(holders) != 1 || holders[0].TransactionalID != "w" || holders[0].FirstOffset != end {
		t.Errorf("holders %+v, %v, want one of id w from %d", holders, err, end)
	}
	if open, err := l.OpenOn(within(t, time.Minute), "w"); err != nil || !open {
		t.Errorf("OpenOn: %v, %v", open, err)
	}
	// A read that waits is answered by a new leader when the old one is gone.
	w.end(kgo.TryCommit)
	end = stableEnd(t, l)
	if err := cluster.MoveTopicPartition("state", 0, (cluster.LeaderFor("state", 0)+1)%3); err != nil {
		t.Fatal(err)
	}
	if keys, position := readKeys(t, l, ReadOptions{To: end, Committed: true}); strings.Join(keys, " ") != "a b d" || position != end {
		t.Errorf("after the leader moved: got %q up to %d, want a b d up to %d", keys, position, end)
	}
	f, err := checkSnapshotTopic(within(t, time.Minute), l.Client, "compacted", 2, &TopicConfig{Replicas: 1})
	if err != nil || f.Partitions != 2 || f.CleanupPolicy != "compact" {
		t.Errorf("facts %+v, %v", f, err)
	}
}

// checkSnapshotTopic is Compacted.Check for the snapshot topic of a flow.
func checkSnapshotTopic(ctx context.Context, cl *kgo.Client, topic string, partitions int32, create *TopicConfig) (Facts, error) {
	return Compacted{
		Component: "flow", Role: "snapshot", Topic: topic, Partitions: partitions, Inputs: 1, Create: create, Field: "Snapshots.Create",
	}.Check(ctx, cl)
}
