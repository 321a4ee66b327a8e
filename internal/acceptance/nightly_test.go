package acceptance

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// nightly skips a test that takes minutes, unless HOLDFAST_NIGHTLY is 1.
func nightly(t *testing.T) {
	t.Helper()
	if os.Getenv("HOLDFAST_NIGHTLY") != "1" {
		t.Skip("takes minutes: set HOLDFAST_NIGHTLY=1")
	}
}

// The epoch of a producer id has 15 bits, and each transaction takes one: after 32,767 of them the
// broker gives the transactional id another producer id. State and offset must be right across that.
func TestKafkaNightlyEpochRollover(t *testing.T) {
	nightly(t)
	t.Parallel()
	const transactions = 33_000
	k := kafkatest.Start(t)
	input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	snapshots := k.CreateTopic(t, input+"-snapshots", 1, map[string]string{"cleanup.policy": "compact"})
	conf := kafka.Config{Brokers: k.Addrs}
	granted := make(chan *fence.Ownership, 1)
	group := fence.NewGroup(func(_ context.Context, o *fence.Ownership) { granted <- o }, func(*fence.Ownership, bool) {})
	client, err := group.NewClient(t.Context(), conf, fence.Session{Group: input}, kgo.ConsumeTopics(input), kgo.Balancers(kgo.CooperativeStickyBalancer()))
	if err != nil {
		t.Fatal(err)
	}
	polling, stopPolling := context.WithCancel(t.Context())
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for polling.Err() == nil {
			client.PollFetches(polling)
			client.AllowRebalance()
		}
	}()
	defer func() { stopPolling(); <-polled; client.CloseAllowingRebalance() }()
	own := <-granted
	w, _, err := fence.Open(t.Context(), fence.Config{
		Kafka: conf, Group: input, Ownership: own, Input: own.Partition(), InputTopicID: topicID(t, k, input), InputPartitions: 1,
		Progress: stream.Partition{Topic: snapshots},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	first, _ := producerOf(t, k, w.TransactionalID())
	for n := int64(1); n <= transactions; n++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := w.Commit(ctx, fence.Offset{Next: n, LeaderEpoch: -1}, stream.Message{Key: []byte("k"), Value: []byte(strconv.FormatInt(n, 10))})
		cancel()
		if err != nil {
			t.Fatalf("transaction %d: %v", n, err)
		}
	}
	last, epoch := producerOf(t, k, w.TransactionalID())
	t.Logf("producer id %d, then %d with epoch %d", first, last, epoch)
	if first == last {
		t.Errorf("the producer id is %d still, with epoch %d: there was no rollover", last, epoch)
	}
	var value string
	var progress fence.Progress
	for r, err := range fence.Restore(t.Context(), fence.RestoreConfig{Kafka: conf, Partition: stream.Partition{Topic: snapshots}}) {
		if err != nil {
			t.Fatal(err)
		}
		if !fence.IsProgressKey(r.Key) {
			value = string(r.Value)
		} else if progress, err = fence.DecodeProgress(r.Value); err != nil {
			t.Fatal(err)
		}
	}
	if value != strconv.Itoa(transactions) || progress.Inputs[0].Next != transactions || progress.Sequence != transactions {
		t.Errorf("stored %s with progress %+v, want %d", value, progress, transactions)
	}
	if got := committed(t, k, input, input)[0]; got != transactions {
		t.Errorf("committed %d, want %d", got, transactions)
	}
}

// producerOf returns the producer id and epoch that the broker has for a transactional id.
func producerOf(t *testing.T, k *kafkatest.Cluster, id string) (producer int64, epoch int16) {
	t.Helper()
	rs, err := kadm.NewClient(k.Client(t)).DescribeTransactions(t.Context(), id)
	if err == nil {
		err = rs[id].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	return rs[id].ProducerID, rs[id].ProducerEpoch
}
