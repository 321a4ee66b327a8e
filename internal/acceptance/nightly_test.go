package acceptance

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

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
	w, snapshots := newWriter(t, k, 0)
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
	for r, err := range fence.Restore(t.Context(), fence.RestoreConfig{Kafka: kafka.Config{Brokers: k.Addrs}, Partition: stream.Partition{Topic: snapshots}}) {
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
	input := strings.TrimSuffix(snapshots, "-snapshots")
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
