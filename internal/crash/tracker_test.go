package crash

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is a made-up wire of one member with two partitions.
type wire struct {
	t     *testing.T
	tr    *Tracker
	next  int32
	pairs []string // as "lane pair"
}

func newWire(t *testing.T) *wire {
	return &wire{t: t, tr: NewTracker(Names{
		Input: "in", Output: "out", Progress: "progress",
		Topics: map[[16]byte]string{{1}: "in", {2}: "out", {3}: "progress"}, IDs: map[string]int32{"id-0": 0, "id-1": 1},
	}, 2)}
}

// sends has the member send requests. An error is what the broker says to the last of them.
func (w *wire) sends(err *kerr.Error, reqs ...kmsg.Request) {
	w.t.Helper()
	for i, req := range reqs {
		req.SetVersion(req.MaxVersion())
		w.next++
		id := ID{Conn: 1, Correlation: w.next}
		for _, s := range w.tr.See(id, req) {
			if p, ok := s.Pair(); ok {
				w.pairs = append(w.pairs, s.Lane+" "+p.String())
			}
		}
		resp := req.ResponseKind()
		if i == len(reqs)-1 && err != nil {
			refuse(w.t, resp, err.Code)
		}
		w.tr.Answered(id, resp)
	}
}

func refuse(t *testing.T, resp kmsg.Response, code int16) {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		r.ErrorCode = code
	case *kmsg.InitProducerIDResponse:
		r.ErrorCode = code
	case *kmsg.OffsetFetchResponse:
		r.Groups = []kmsg.OffsetFetchResponseGroup{{ErrorCode: code}}
	default:
		t.Fatalf("no refusal of %T", resp)
	}
}

// assigned has the member learn what it has.
func (w *wire) assigned(partitions ...int32) {
	req := kmsg.NewPtrSyncGroupRequest()
	w.next++
	id := ID{Conn: 1, Correlation: w.next}
	for _, s := range w.tr.See(id, req) {
		if p, ok := s.Pair(); ok {
			w.pairs = append(w.pairs, s.Lane+" "+p.String())
		}
	}
	a := kmsg.NewConsumerMemberAssignment()
	a.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "in", Partitions: partitions}}
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.MemberAssignment = a.AppendTo(nil)
	w.tr.Answered(id, resp)
}

func initID(id string) kmsg.Request {
	r := kmsg.NewPtrInitProducerIDRequest()
	if id != "" {
		r.TransactionalID = &id
	}
	return r
}

func offsetFetch(p int32) kmsg.Request {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Groups = []kmsg.OffsetFetchRequestGroup{{Topics: []kmsg.OffsetFetchRequestGroupTopic{{Partitions: []int32{p}}}}}
	return r
}

func groupFetch() kmsg.Request {
	member := "m"
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Groups = []kmsg.OffsetFetchRequestGroup{{MemberID: &member}}
	return r
}

func listOffsets(p int32) kmsg.Request {
	r := kmsg.NewPtrListOffsetsRequest()
	r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "progress", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Partition: p}}}}
	return r
}

func fetch(topic byte, p int32) kmsg.Request {
	r := kmsg.NewPtrFetchRequest()
	r.Topics = []kmsg.FetchRequestTopic{{TopicID: [16]byte{topic}, Partitions: []kmsg.FetchRequestTopicPartition{{Partition: p, FetchOffset: 7}}}}
	return r
}

func produce(id string, topic byte, p int32) kmsg.Request {
	r := kmsg.NewPtrProduceRequest()
	if id != "" {
		r.TransactionID = &id
	}
	r.Topics = []kmsg.ProduceRequestTopic{{TopicID: [16]byte{topic}, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: p}}}}
	return r
}

func bind(id string, next int64) kmsg.Request {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.TransactionalID = id
	r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "in", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: next}}}}
	return r
}

func end(id string) kmsg.Request {
	r := kmsg.NewPtrEndTxnRequest()
	r.TransactionalID, r.Commit = id, true
	return r
}

// pairsOfARun are those of each order.
var pairsOfARun = map[string]string{
	"0": `assign: JoinGroup → JoinGroup
assign: JoinGroup → SyncGroup
takeover: SyncGroup → InitProducerID
takeover: InitProducerID → OffsetFetch
restore: OffsetFetch → ListOffsets
restore: ListOffsets → Fetch
fold: Fetch → InitProducerID (no id)
fold: InitProducerID (no id) → Produce (outputs)
commit: Produce (outputs) → Produce
commit: Produce → TxnOffsetCommit
commit: TxnOffsetCommit → EndTxn
revoke: EndTxn → JoinGroup
revoke: JoinGroup → SyncGroup
revoke: SyncGroup → JoinGroup
revoke: JoinGroup → SyncGroup
close: SyncGroup → Produce
close: Produce → TxnOffsetCommit
close: TxnOffsetCommit → EndTxn
close: EndTxn → LeaveGroup`,
	"1": `assign: JoinGroup → JoinGroup
assign: JoinGroup → SyncGroup
takeover: SyncGroup → InitProducerID
takeover: InitProducerID → OffsetFetch
restore: OffsetFetch → ListOffsets
restore: ListOffsets → Fetch
fold: Fetch → Produce (outputs)
revoke: Produce (outputs) → JoinGroup
revoke: JoinGroup → SyncGroup
revoke: SyncGroup → Produce
revoke: Produce → TxnOffsetCommit
revoke: TxnOffsetCommit → EndTxn
revoke: EndTxn → JoinGroup
revoke: JoinGroup → SyncGroup
close: SyncGroup → LeaveGroup`,
	"group": `assign: JoinGroup → JoinGroup
assign: JoinGroup → SyncGroup
assign: SyncGroup → OffsetFetch (group)
revoke: OffsetFetch (group) → JoinGroup
revoke: JoinGroup → SyncGroup
revoke: SyncGroup → JoinGroup
revoke: JoinGroup → SyncGroup
close: SyncGroup → LeaveGroup`,
}

// A whole run: what was seen becomes the pairs of each partition and of the group, without the chatter.
func TestPairsOfARun(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.sends(nil, offsetFetch(0), kmsg.NewPtrMetadataRequest()) // before it joins
	w.sends(kerr.MemberIDRequired, kmsg.NewPtrJoinGroupRequest())
	w.sends(nil, kmsg.NewPtrJoinGroupRequest())
	w.assigned(0, 1)
	w.sends(kerr.ConcurrentTransactions, initID("id-0"))
	w.sends(nil, initID("id-1"), initID("id-0"), kmsg.NewPtrHeartbeatRequest())
	w.sends(kerr.UnstableOffsetCommit, offsetFetch(0))
	w.sends(nil, offsetFetch(0), offsetFetch(1), groupFetch())
	w.sends(nil, listOffsets(0), listOffsets(1), fetch(3, 1), fetch(3, 0), fetch(3, 0), fetch(1, 0))
	w.sends(nil, initID(""), produce("", 2, 1), produce("id-0", 3, 0), produce("id-0", 3, 0), kmsg.NewPtrHeartbeatRequest(), bind("id-0", 9), end("id-0"))
	w.tr.Load(1)
	w.sends(nil, produce("", 2, 0), kmsg.NewPtrJoinGroupRequest())
	w.assigned(0)
	w.sends(nil, produce("id-1", 3, 1), bind("id-1", 5), end("id-1"), kmsg.NewPtrJoinGroupRequest())
	w.assigned(0)
	w.tr.Closing()
	w.sends(nil, produce("id-0", 3, 0), bind("id-0", 11), end("id-0"), kmsg.NewPtrLeaveGroupRequest())

	for lane, pairs := range pairsOfARun {
		if got := w.lane(lane); !slices.Equal(got, strings.Split(pairs, "\n")) {
			t.Errorf("lane %s:\n%s\nwant\n%s", lane, strings.Join(got, "\n"), pairs)
		}
	}
	if got := []int64{w.tr.Committed(0, -1), w.tr.Committed(1, -1), w.tr.Position(0), w.tr.Position(1)}; !slices.Equal(got, []int64{11, 5, 7, -1}) {
		t.Errorf("committed and fetched up to %v", got)
	}
}

func (w *wire) lane(name string) (out []string) {
	for _, p := range w.pairs {
		if lane, pair, _ := strings.Cut(p, " "); lane == name {
			out = append(out, pair)
		}
	}
	return out
}

// Outside a transaction each Produce waits for the one before it, and is a step.
func TestPairsOutsideTransactions(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.sends(nil, kmsg.NewPtrJoinGroupRequest())
	w.assigned(0, 1)
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "in", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 3}}}}
	w.sends(nil, offsetFetch(0), produce("", 3, 0), produce("", 3, 0), commit)
	want := []string{"assign: JoinGroup → SyncGroup", "takeover: SyncGroup → OffsetFetch", "commit: OffsetFetch → Produce", "commit: Produce → Produce", "commit: Produce → OffsetCommit"}
	if got := w.lane("0"); !slices.Equal(got, want) {
		t.Errorf("pairs %q, want %q", got, want)
	}
	if got := w.tr.Committed(0, -1); got != 3 {
		t.Errorf("committed up to %d", got)
	}
}

// What the member tries out in a group of its own is an order of its own, and says nothing of its state.
func TestProbeIsAnOrderOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	probe := kmsg.NewPtrJoinGroupRequest()
	probe.Group = "probe"
	gone := kmsg.NewPtrDeleteGroupsRequest()
	gone.Groups = []string{"probe"}
	w.sends(nil, probe, initID("probe-id"), bind("probe-id", 99), end("probe-id"), gone, kmsg.NewPtrJoinGroupRequest())
	w.assigned(0, 1)
	want := []string{"probe: JoinGroup → InitProducerID", "probe: InitProducerID → TxnOffsetCommit", "probe: TxnOffsetCommit → EndTxn", "probe: EndTxn → DeleteGroups"}
	if got := w.lane("probe"); !slices.Equal(got, want) {
		t.Errorf("pairs %q, want %q", got, want)
	}
	if got := w.lane("0"); !slices.Equal(got, []string{"assign: JoinGroup → SyncGroup"}) {
		t.Errorf("pairs of a partition %q", got)
	}
	if got := w.tr.Committed(0, -1); got != -1 {
		t.Errorf("committed up to %d", got)
	}
}

// A request that is not known is a step of the partition that has the load.
func TestUnknownRequestIsAStep(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.sends(nil, kmsg.NewPtrJoinGroupRequest(), kmsg.NewPtrDeleteRecordsRequest())
	if got := w.lane("0"); !slices.Equal(got, []string{"fold: JoinGroup → DeleteRecords"}) {
		t.Errorf("pairs %q", got)
	}
}
