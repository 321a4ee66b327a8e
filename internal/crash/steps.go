package crash

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Phase is what a member is about.
type Phase string

// The phases of a member.
const (
	Probe    Phase = "probe"    // before it joins: it tries the fence out, in a group and under an id of no other use
	Assign   Phase = "assign"   // it joins the group
	Takeover Phase = "takeover" // the transactional id and the committed offset
	Restore  Phase = "restore"  // states, and what the input is
	Fold     Phase = "fold"     // outputs outside a transaction
	Commit   Phase = "commit"
	Revoke   Phase = "revoke" // a partition is given up, in a rebalance
	Close    Phase = "close"  // the member ends in order
)

// Step is a request of a member in a phase, and which of its like it is in its order, from 1.
type Step struct {
	Phase Phase
	Name  string
	N     int
}

// Pair is two consecutive requests, in the phase of the second.
type Pair struct {
	Phase         Phase
	First, Second string
}

func (p Pair) String() string { return fmt.Sprintf("%s: %s → %s", p.Phase, p.First, p.Second) }

// Sighting is a request as a step of one order.
type Sighting struct {
	Lane string // the partition's number, or "group"
	From *Step  // nil: To is the first
	To   Step
}

// Pair is the one that the request ends.
func (s Sighting) Pair() (p Pair, ok bool) {
	if s.From == nil {
		return p, false
	}
	return Pair{s.To.Phase, s.From.Name, s.To.Name}, true
}

// The names of steps that are not those of their requests.
const (
	initPlain      = "InitProducerID (no id)" // of an idempotent producer
	produceOutputs = "Produce (outputs)"      // outside a transaction
	fetchGroup     = "OffsetFetch (group)"    // the client's own, for all its partitions
	endAbort       = "EndTxn (abort)"
	// Of a member of KIP-848, which says everything by heartbeats.
	heartbeatJoin  = "ConsumerGroupHeartbeat (join)"
	heartbeatHolds = "ConsumerGroupHeartbeat (holds)" // what it has, where that has changed
	heartbeatLeave = "ConsumerGroupHeartbeat (leave)"
)

// place says where a request belongs and what it is called there.
type place struct {
	name  string
	phase Phase
	// lanes is what the request is a step of.
	lanes lanes
	p     int32 // of lanePartition
	// once has further requests of the name belong to the first, until the transaction ends.
	once bool
}

type lanes int

const (
	laneNone       lanes = iota // it is no step
	lanePartition               // of the partition it names
	laneLoad                    // it names none
	laneGroup                   // of the client's group session alone
	laneAll                     // it speaks for the member
	laneMembership              // it speaks for the member, beside what the member does for its partitions
	laneProbe                   // it is about another group, or under another transactional id
)

// chatter are the requests that only ask, or that run in the background.
var chatter = map[kmsg.Key]bool{
	kmsg.ApiVersions: true, kmsg.Metadata: true, kmsg.FindCoordinator: true, kmsg.Heartbeat: true,
	kmsg.DescribeConfigs: true, kmsg.DescribeCluster: true, kmsg.DescribeGroups: true, kmsg.DescribeACLs: true,
	kmsg.ListGroups: true, kmsg.ConsumerGroupDescribe: true, kmsg.DescribeTransactions: true, kmsg.DescribeProducers: true,
}

// Names is what a member's requests are about.
type Names struct {
	Group                   string
	Input, Output, Progress string
	Topics                  map[[16]byte]string // by topic id, for the versions that have no names
	IDs                     map[string]int32    // transactional id → partition
}

func (n Names) topic(name string, id [16]byte) string {
	if name == "" {
		return n.Topics[id]
	}
	return name
}

func (n Names) ofID(id, name string) place {
	p, ok := n.IDs[id]
	if !ok {
		return place{name: name, phase: Probe, lanes: laneProbe}
	}
	return place{name: name, phase: Commit, lanes: lanePartition, p: p}
}

// probes reports whether a request is about another group than the member's.
func (n Names) probes(req kmsg.Request) bool {
	group := n.Group
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		group = req.Group
	case *kmsg.SyncGroupRequest:
		group = req.Group
	case *kmsg.LeaveGroupRequest:
		group = req.Group
	case *kmsg.ConsumerGroupHeartbeatRequest:
		group = req.Group
	case *kmsg.OffsetFetchRequest:
		for _, g := range req.Groups {
			group = g.Group
		}
	case *kmsg.DeleteGroupsRequest:
		for _, g := range req.Groups {
			group = g
		}
	}
	return group != n.Group
}

// place finds out where a request belongs.
func (n Names) place(req kmsg.Request) place {
	name := kmsg.NameForKey(req.Key())
	if chatter[kmsg.Key(req.Key())] {
		return place{}
	}
	if n.probes(req) {
		return place{name: name, phase: Probe, lanes: laneProbe}
	}
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest:
		return place{name: name, phase: Assign, lanes: laneAll}
	case *kmsg.LeaveGroupRequest:
		return place{name: name, phase: Close, lanes: laneAll}
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return ofHeartbeat(req)
	case *kmsg.InitProducerIDRequest:
		if req.TransactionalID == nil {
			return place{name: initPlain, phase: Fold, lanes: laneLoad}
		}
		at := n.ofID(*req.TransactionalID, name)
		if at.lanes == lanePartition {
			at.phase = Takeover
		}
		return at
	case *kmsg.OffsetFetchRequest:
		return n.ofOffsetFetch(req, name)
	case *kmsg.ListOffsetsRequest:
		if len(req.Topics) == 1 && len(req.Topics[0].Partitions) == 1 {
			return place{name: name, phase: Restore, lanes: lanePartition, p: req.Topics[0].Partitions[0].Partition}
		}
	case *kmsg.OffsetForLeaderEpochRequest:
		if len(req.Topics) == 1 && len(req.Topics[0].Partitions) == 1 {
			return place{name: name, phase: Restore, lanes: lanePartition, p: req.Topics[0].Partitions[0].Partition}
		}
	case *kmsg.FetchRequest:
		return n.ofFetch(req, name)
	case *kmsg.ProduceRequest:
		return n.ofProduce(req, name)
	case *kmsg.AddPartitionsToTxnRequest:
		at := n.ofID(req.TransactionalID, name)
		at.once = true
		return at
	case *kmsg.AddOffsetsToTxnRequest:
		return n.ofID(req.TransactionalID, name)
	case *kmsg.TxnOffsetCommitRequest:
		return n.ofID(req.TransactionalID, name)
	case *kmsg.EndTxnRequest:
		if !req.Commit {
			name = endAbort
		}
		return n.ofID(req.TransactionalID, name)
	case *kmsg.OffsetCommitRequest:
		if len(req.Topics) == 1 && len(req.Topics[0].Partitions) == 1 {
			return place{name: name, phase: Commit, lanes: lanePartition, p: req.Topics[0].Partitions[0].Partition}
		}
	}
	return place{name: name, phase: Fold, lanes: laneLoad}
}

// ofHeartbeat tells the heartbeats of KIP-848 that move the member from those that keep it in the group.
// That it tells what it holds is in no order with what it does for its partitions at the same time.
func ofHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) place {
	switch {
	case req.MemberEpoch == 0:
		return place{name: heartbeatJoin, phase: Assign, lanes: laneAll}
	case req.MemberEpoch < 0:
		return place{name: heartbeatLeave, phase: Close, lanes: laneAll}
	case req.Topics != nil:
		return place{name: heartbeatHolds, phase: Assign, lanes: laneMembership}
	}
	return place{}
}

// ofOffsetFetch tells the client's fetch, which names the member, from a takeover's.
func (n Names) ofOffsetFetch(req *kmsg.OffsetFetchRequest, name string) place {
	if len(req.Groups) != 1 || req.Groups[0].MemberID != nil {
		return place{name: fetchGroup, phase: Assign, lanes: laneGroup}
	}
	ts := req.Groups[0].Topics
	if len(ts) != 1 || len(ts[0].Partitions) != 1 {
		return place{} // a look at the whole group
	}
	return place{name: name, phase: Takeover, lanes: lanePartition, p: ts[0].Partitions[0]}
}

func (n Names) ofFetch(req *kmsg.FetchRequest, name string) place {
	for _, t := range req.Topics {
		if n.topic(t.Topic, t.TopicID) == n.Progress && len(t.Partitions) > 0 {
			return place{name: name, phase: Restore, lanes: lanePartition, p: t.Partitions[0].Partition}
		}
	}
	return place{} // of the input
}

func (n Names) ofProduce(req *kmsg.ProduceRequest, name string) place {
	if req.TransactionID != nil {
		at := n.ofID(*req.TransactionID, name)
		at.once = true
		return at
	}
	for _, t := range req.Topics {
		if n.topic(t.Topic, t.TopicID) == n.Progress && len(t.Partitions) > 0 {
			return place{name: name, phase: Commit, lanes: lanePartition, p: t.Partitions[0].Partition}
		}
	}
	return place{name: produceOutputs, phase: Fold, lanes: laneLoad}
}
