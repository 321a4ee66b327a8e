package wiretap

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// TestKafkaRefusals has a real broker refuse a stale producer and a stale group member, and checks that
// each answer was understood and counted.
func TestKafkaRefusals(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tap, err := NewCluster(k.Addrs)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(tap.Err(), tap.Close()); err != nil {
			t.Error(err)
		}
	}()
	tap.OnRequest(func(r Request) {
		if _, err := r.Decoded(); err != nil {
			t.Error(err)
		}
	})
	tap.OnResponse(func(Request, kmsg.Response) {}) // every answer is decoded, and Err has what fails
	refusals := WatchRefusals(tap)

	name := k.CreateTopic(t, kafkatest.UniqueName("refusals"), 1, nil)
	group, id := kafkatest.UniqueName("group"), kafkatest.UniqueName("id")
	client := func(opts ...kgo.Opt) *kgo.Client {
		return k.Client(t, append(opts, kgo.Dialer(tap.Dialer()), kgo.DefaultProduceTopic(name))...)
	}
	old, next := client(kgo.TransactionalID(id)), client(kgo.TransactionalID(id))
	member := client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(name), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	commitTwice(t, ctx, old)
	if fs := member.PollFetches(ctx); fs.Err() != nil || fs.NumRecords() == 0 {
		t.Fatalf("%d records, %v", fs.NumRecords(), fs.Err())
	}
	if err := member.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	if n := refusals.Count(); n != 0 {
		t.Fatalf("refusals of rightful writes: %v", refusals.All())
	}

	if err := old.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := next.ProducerID(ctx); err != nil {
		t.Fatal(err)
	}
	if err := old.ProduceSync(ctx, kgo.StringRecord("stale")).FirstErr(); err == nil {
		t.Fatal("the broker accepted a record of a fenced producer")
	}
	// On brokers that know transaction.version 1 only, the fence shows in AddPartitionsToTxn.
	if err := refusals.Await(ctx, 1); err != nil {
		t.Fatal(err)
	}
	before := refusals.Count()

	commitUnknownGeneration(t, ctx, next, member, group, name)
	if err := refusals.Await(ctx, before+1); err != nil {
		t.Fatal(err)
	}
	if n := refusals.By()["OffsetCommit ILLEGAL_GENERATION"]; n != 1 {
		t.Errorf("refusals %v, want one OffsetCommit ILLEGAL_GENERATION", refusals.By())
	}
	t.Logf("Kafka %s: %v", kafkatest.Version(), refusals.By())
}

// commitUnknownGeneration commits an offset under a generation that never was.
func commitUnknownGeneration(t *testing.T, ctx context.Context, next, member *kgo.Client, group, name string) {
	t.Helper()
	known := kmsg.NewPtrMetadataRequest()
	known.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	meta, err := known.RequestWith(ctx, next)
	if err != nil {
		t.Fatal(err)
	}
	memberID, generation := member.GroupMetadata()
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.MemberID, commit.Generation = group, memberID, generation+7
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: name, TopicID: meta.Topics[0].TopicID,
		Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}}}
	if _, err := commit.RequestWith(ctx, next); err != nil {
		t.Fatal(err)
	}
}

// commitTwice ends two transactions, so that both are seen with their usual course.
func commitTwice(t *testing.T, ctx context.Context, cl *kgo.Client) {
	t.Helper()
	for range 2 {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
}
