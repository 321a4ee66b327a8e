package devbroker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// These tests hold the list of gaps in the package documentation to be true of the pinned version.
// One that fails after an upgrade is good news: take the gap off the list, and let the tests that
// work around it run on this broker as well.

const id, group, topic = "id", "group", "t"

type gap struct {
	t   *testing.T
	ctx context.Context
	b   *Broker
	cl  *kgo.Client
}

func newGap(t *testing.T) gap {
	t.Helper()
	b, err := Start(Config{Listen: "127.0.0.1:0", Topics: []Topic{{Name: topic, Partitions: 2, Compact: true}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	g := gap{t: t, ctx: ctx, b: b}
	g.cl = g.client()
	t.Cleanup(func() {
		cancel()
		g.cl.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g gap) client(opts ...kgo.Opt) *kgo.Client {
	g.t.Helper()
	cl, err := g.b.Kafka().Client(append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		g.t.Fatal(err)
	}
	return cl
}

func ask[R kmsg.Response](g gap, req kmsg.Request) R {
	g.t.Helper()
	answer, err := g.cl.Request(g.ctx, req)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer.(R)
}

// initialise sends InitProducerID; pid -1 is a first one, anything else says who one believes to be.
func (g gap) initialise(pid int64, epoch int16) *kmsg.InitProducerIDResponse {
	g.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(id), 60_000
	req.ProducerID, req.ProducerEpoch = pid, epoch
	return ask[*kmsg.InitProducerIDResponse](g, req)
}

func TestGapStaleInitProducerIDIsAccepted(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	stale, owner := g.initialise(-1, -1), g.initialise(-1, -1)
	if stale.ProducerID != owner.ProducerID || owner.ProducerEpoch <= stale.ProducerEpoch {
		t.Fatalf("the takeover gave %d/%d after %d/%d", owner.ProducerID, owner.ProducerEpoch, stale.ProducerID, stale.ProducerEpoch)
	}
	if again := g.initialise(stale.ProducerID, stale.ProducerEpoch); again.ErrorCode != 0 || again.ProducerEpoch <= owner.ProducerEpoch {
		t.Fatalf("gap closed: a stale InitProducerID was answered %v, epoch %d", kerr.ErrorForCode(again.ErrorCode), again.ProducerEpoch)
	}
}

func TestGapFencedAbortIsHandedTheSuccessorsEpoch(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	stale, owner := g.initialise(-1, -1), g.initialise(-1, -1)
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, stale.ProducerID, stale.ProducerEpoch
	got := ask[*kmsg.EndTxnResponse](g, req)
	if got.ErrorCode != 0 || got.ProducerEpoch != owner.ProducerEpoch {
		t.Fatalf("gap closed: the abort of a fenced producer was answered %v, epoch %d", kerr.ErrorForCode(got.ErrorCode), got.ProducerEpoch)
	}
}

func TestGapFencedProduceOpensATransaction(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	stale := g.client(kgo.TransactionalID(id))
	defer stale.Close()
	if _, _, err := stale.ProducerID(g.ctx); err != nil {
		t.Fatal(err)
	}
	g.initialise(-1, -1)
	if err := stale.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	err := stale.ProduceSync(g.ctx, &kgo.Record{Topic: topic, Key: []byte("k")}).FirstErr()
	if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
		t.Fatalf("a fenced produce: %v, want a producer fence", err)
	}
	txns, err := kadm.NewClient(g.cl).DescribeTransactions(g.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if state := txns[id].State; state != "Ongoing" {
		t.Fatalf("gap closed: after a fenced produce the transaction is %s", state)
	}
}

// write produces one record in a transaction that is left open.
func (g gap) write(cl *kgo.Client, value string) {
	g.t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		g.t.Fatal(err)
	}
	if err := cl.ProduceSync(g.ctx, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)}).FirstErr(); err != nil {
		g.t.Fatal(err)
	}
}

func (g gap) end(cl *kgo.Client, commit kgo.TransactionEndTry) {
	g.t.Helper()
	if err := cl.EndTransaction(g.ctx, commit); err != nil {
		g.t.Fatal(err)
	}
}

func TestGapCompactionIgnoresOpenTransactions(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	cl, other := g.client(kgo.TransactionalID(id)), g.client(kgo.TransactionalID("other"))
	defer cl.Close()
	defer other.Close()
	g.write(cl, "committed")
	g.end(cl, kgo.TryCommit)
	g.write(cl, "aborted later")
	// The last batch is never compacted, so that another one has to come after it.
	if err := other.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := other.ProduceSync(g.ctx, &kgo.Record{Topic: topic, Key: []byte("last"), Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	g.end(other, kgo.TryCommit)
	g.b.cluster.Compact()
	g.end(cl, kgo.TryAbort)

	reader := g.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeTopics(topic))
	defer reader.Close()
	seen := map[string]string{}
	for seen["last"] == "" {
		fetches := reader.PollFetches(g.ctx)
		if err := g.ctx.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Key)] = string(r.Value) })
	}
	if seen["k"] != "" {
		t.Fatalf("gap closed: after compaction under an open transaction k is %q", seen["k"])
	}
}

func TestGapCompactionMovesTheLogStart(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	for range 3 { // the last batch is never compacted
		if err := g.cl.ProduceSync(g.ctx, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	g.b.cluster.Compact()
	starts, err := kadm.NewClient(g.cl).ListStartOffsets(g.ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	if start, ok := starts.Lookup(topic, 0); !ok || start.Err != nil || start.Offset == 0 {
		t.Fatalf("gap closed: after compaction the log of three records of one key begins at %+v", start)
	}
}

func TestGapStableFetchWaitsForTheWholeGroup(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	topics, err := kadm.NewClient(g.cl).ListTopics(g.ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	topicID := topics[topic].ID
	var before kadm.Offsets
	before.AddOffset(topic, 1, 3, -1)
	if err := kadm.NewClient(g.cl).CommitAllOffsets(g.ctx, group, before); err != nil {
		t.Fatal(err)
	}
	owner := g.initialise(-1, -1)
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.Group = id, group
	commit.ProducerID, commit.ProducerEpoch = owner.ProducerID, owner.ProducerEpoch
	ct := kmsg.NewTxnOffsetCommitRequestTopic()
	ct.Topic, ct.TopicID = topic, topicID
	cp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	cp.Partition, cp.Offset = 0, 5
	ct.Partitions = append(ct.Partitions, cp)
	commit.Topics = append(commit.Topics, ct)
	if got := ask[*kmsg.TxnOffsetCommitResponse](g, commit); got.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal(kerr.ErrorForCode(got.Topics[0].Partitions[0].ErrorCode))
	}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.RequireStable = true
	fg := kmsg.NewOffsetFetchRequestGroup()
	fg.Group = group
	ft := kmsg.NewOffsetFetchRequestGroupTopic()
	ft.Topic, ft.TopicID, ft.Partitions = topic, topicID, []int32{1}
	fg.Topics = append(fg.Topics, ft)
	fetch.Groups = append(fetch.Groups, fg)
	got := ask[*kmsg.OffsetFetchResponse](g, fetch)
	code := got.Groups[0].ErrorCode
	for _, rt := range got.Groups[0].Topics {
		for _, rp := range rt.Partitions {
			if rp.ErrorCode != 0 {
				code = rp.ErrorCode
			}
		}
	}
	if !errors.Is(kerr.ErrorForCode(code), kerr.UnstableOffsetCommit) {
		t.Fatalf("gap closed: the stable offset of another partition was answered %v", kerr.ErrorForCode(code))
	}
}

// joinClassic makes a member of the classic protocol, which leads its group and gives itself partition 0.
func (g gap) joinClassic() (member string, generation int32) {
	g.t.Helper()
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = group, "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 60_000, 60_000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = []string{topic}
	protocol.Name, protocol.Metadata = "range", subscription.AppendTo(nil)
	join.Protocols = append(join.Protocols, protocol)
	joined := ask[*kmsg.JoinGroupResponse](g, join)
	if errors.Is(kerr.ErrorForCode(joined.ErrorCode), kerr.MemberIDRequired) {
		join.MemberID = joined.MemberID
		joined = ask[*kmsg.JoinGroupResponse](g, join)
	}
	if joined.ErrorCode != 0 || joined.LeaderID != joined.MemberID {
		g.t.Fatalf("a classic join: %v, member %s led by %s", kerr.ErrorForCode(joined.ErrorCode), joined.MemberID, joined.LeaderID)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, joined.MemberID, joined.Generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	var all kmsg.ConsumerMemberAssignment
	all.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: topic, Partitions: []int32{0}}}
	given := kmsg.NewSyncGroupRequestGroupAssignment()
	given.MemberID, given.MemberAssignment = joined.MemberID, all.AppendTo(nil)
	sync.GroupAssignment = append(sync.GroupAssignment, given)
	if got := ask[*kmsg.SyncGroupResponse](g, sync); got.ErrorCode != 0 {
		g.t.Fatalf("a classic sync: %v", kerr.ErrorForCode(got.ErrorCode))
	}
	return joined.MemberID, joined.Generation
}

// joinServerSide sends the first heartbeat of a member of KIP-848.
func (g gap) joinServerSide() *kmsg.ConsumerGroupHeartbeatResponse {
	g.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = group, "AAAAAAAAAAAAAAAAAAAAAA", 60_000
	req.SubscribedTopicNames, req.Topics = []string{topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](g, req)
}

func TestGapServerSideMemberAmongClassicOnes(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	member, generation := g.joinClassic()
	if got := g.joinServerSide(); !errors.Is(kerr.ErrorForCode(got.ErrorCode), kerr.GroupIDNotFound) {
		t.Fatalf("gap closed: a member of KIP-848 that comes to a classic one was answered %v", kerr.ErrorForCode(got.ErrorCode))
	}
	if err := g.commitAs(member, generation); err != nil {
		t.Fatalf("the classic member's commit: %v", err)
	}
}

func TestGapClassicMemberAmongServerSideOnes(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	first := g.joinServerSide()
	if first.ErrorCode != 0 || first.Assignment == nil || len(first.Assignment.Topics) == 0 {
		t.Fatalf("a member of KIP-848 that is alone was answered %v, with %+v", kerr.ErrorForCode(first.ErrorCode), first.Assignment)
	}
	member, generation := g.joinClassic() // it gives itself a partition that the first one has
	if err := g.commitAs(member, generation); !errors.Is(err, kerr.UnknownMemberID) {
		t.Fatalf("gap closed: the commit of a classic member in a group of KIP-848 was answered %v", err)
	}
}

// commitAs commits an offset of partition 0 as a member of the group.
func (g gap) commitAs(member string, generation int32) error {
	g.t.Helper()
	topics, err := kadm.NewClient(g.cl).ListTopics(g.ctx, topic)
	if err != nil {
		g.t.Fatal(err)
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.MemberID, commit.Generation = group, member, generation
	ct := kmsg.NewOffsetCommitRequestTopic()
	ct.Topic, ct.TopicID = topic, topics[topic].ID
	cp := kmsg.NewOffsetCommitRequestTopicPartition()
	cp.Offset = 1
	ct.Partitions = append(ct.Partitions, cp)
	commit.Topics = append(commit.Topics, ct)
	return kerr.ErrorForCode(ask[*kmsg.OffsetCommitResponse](g, commit).Topics[0].Partitions[0].ErrorCode)
}

func TestGapAnySettingIsAccepted(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	_, err := kadm.NewClient(g.cl).CreateTopic(g.ctx, 1, 1, map[string]*string{"no.such.setting": kmsg.StringPtr("1")}, "other")
	if err != nil {
		t.Fatalf("gap closed: a topic with an unknown setting was refused: %v", err)
	}
}
