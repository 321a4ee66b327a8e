package crash

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// ID names one request on a member's wire.
type ID struct {
	Upstream    string
	Conn        uint64
	Correlation int32
}

// Tracker makes steps of the requests of one member, in the order in which they are seen. Its methods are
// safe for concurrent use.
type Tracker struct {
	names Names

	mu        sync.Mutex
	grown     chan struct{}  // closed, and replaced, when something was seen or answered
	lanes     []*order       // the partitions'
	group     *order         // of the client's group session
	members   *order         // of the membership under KIP-848
	probe     *order         // of what the member tries out before it joins
	holds     map[int32]bool // what the member has last told the group that it has, under KIP-848
	load      int32
	joined    bool
	owns      bool
	closing   bool
	member    string
	seen      map[ID][]Sighting
	sent      map[ID]kmsg.Request
	answered  map[string]int // by name of the step
	done      map[laneStep]bool
	fetched   map[int32]int64 // behind the position of the input
	committed map[int32]int64 // offset that a broker has acknowledged
	bound     map[int32]int64 // offset of the transaction that is open
}

type laneStep struct {
	lane string
	Step
}

// order is the steps of a partition, or of the group.
type order struct {
	name    string
	last    *Step
	lastID  ID
	again   bool // the last step was answered with a call to send it again
	counts  map[Step]int
	once    map[string]bool // of the open transaction
	held    bool
	revoked bool
}

// NewTracker returns a tracker for a member of a group with that many partitions.
func NewTracker(n Names, partitions int32) *Tracker {
	t := &Tracker{
		names: n, group: newOrder("group"), members: newOrder("membership"), probe: newOrder("probe"), grown: make(chan struct{}), seen: map[ID][]Sighting{}, sent: map[ID]kmsg.Request{}, answered: map[string]int{},
		done: map[laneStep]bool{}, fetched: map[int32]int64{}, committed: map[int32]int64{}, bound: map[int32]int64{},
	}
	for p := range partitions {
		t.lanes = append(t.lanes, newOrder(strconv.Itoa(int(p))))
	}
	return t
}

func newOrder(name string) *order {
	return &order{name: name, counts: map[Step]int{}, once: map[string]bool{}}
}

// Load tells that records go to partition p from here on.
func (t *Tracker) Load(p int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.load = p
}

// Closing tells that the member was asked to end.
func (t *Tracker) Closing() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closing = true
}

// See takes a request that the member has sent.
func (t *Tracker) See(id ID, req kmsg.Request) []Sighting {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.growLocked()
	t.sent[id] = req
	if fetch, ok := req.(*kmsg.FetchRequest); ok {
		t.positionLocked(fetch)
	}
	at := t.names.place(req)
	if at.lanes == laneAll && (at.name == heartbeatJoin || req.Key() == int16(kmsg.JoinGroup)) {
		t.joined = true
	}
	if at.lanes == laneMembership && !t.toldAnewLocked(req.(*kmsg.ConsumerGroupHeartbeatRequest)) {
		return nil
	}
	if at.lanes == laneNone || !t.joined && at.lanes != laneProbe {
		return nil
	}
	if at.phase == Takeover {
		t.owns = true
	}
	var found []Sighting
	for _, o := range t.ordersLocked(at) {
		if s, ok := o.step(t.phaseLocked(o, at), at, id); ok {
			found = append(found, s)
		}
	}
	t.seen[id] = found
	return found
}

func (t *Tracker) positionLocked(req *kmsg.FetchRequest) {
	for _, topic := range req.Topics {
		if t.names.topic(topic.Topic, topic.TopicID) != t.names.Input {
			continue
		}
		for _, p := range topic.Partitions {
			t.fetched[p.Partition] = max(t.fetched[p.Partition], p.FetchOffset+1)
		}
	}
}

// toldAnewLocked reports whether the member tells the group of other partitions than the last time. The client tells the
// same again after a failure.
func (t *Tracker) toldAnewLocked(req *kmsg.ConsumerGroupHeartbeatRequest) bool {
	holds := map[int32]bool{}
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			holds[p] = true
		}
	}
	if maps.Equal(holds, t.holds) {
		return false
	}
	t.holds = holds
	return true
}

func (t *Tracker) ordersLocked(at place) []*order {
	switch at.lanes {
	case lanePartition:
		if int(at.p) < len(t.lanes) {
			return t.lanes[at.p : at.p+1]
		}
	case laneLoad:
		return t.lanes[t.load : t.load+1]
	case laneGroup:
		return []*order{t.group}
	case laneMembership:
		return []*order{t.members}
	case laneAll:
		all := append(slices.Clone(t.lanes), t.group)
		if at.name == heartbeatJoin || at.name == heartbeatLeave {
			all = append(all, t.members)
		}
		return all
	case laneProbe:
		return []*order{t.probe}
	case laneNone:
	}
	return nil
}

// phaseLocked is what the request is about in the present state of the member.
func (t *Tracker) phaseLocked(o *order, at place) Phase {
	switch {
	case (at.lanes == laneAll || at.lanes == laneMembership && len(t.holds) < len(t.lanes)) && at.phase == Assign && t.owns:
		return Revoke
	case at.phase == Commit && o.revoked:
		return Revoke
	case at.phase == Commit && t.closing:
		return Close
	}
	return at.phase
}

// step adds a request to the order, unless it belongs to a step before it.
func (o *order) step(phase Phase, at place, id ID) (Sighting, bool) {
	if o.last != nil && o.last.Name == at.name && (o.again || at.name == "Fetch") {
		o.again, o.lastID = false, id
		return Sighting{}, false
	}
	if at.once && o.once[at.name] {
		return Sighting{}, false
	}
	switch at.name {
	case "InitProducerID", "EndTxn", endAbort:
		clear(o.once)
	}
	o.once[at.name] = at.once
	kind := Step{Phase: phase, Name: at.name}
	o.counts[kind]++
	to := kind
	to.N = o.counts[kind]
	s := Sighting{Lane: o.name, From: o.last, To: to}
	o.last, o.lastID, o.again = &to, id, false
	return s, true
}

// Of returns a request's steps.
func (t *Tracker) Of(id ID) []Sighting {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[id]
}

// Last returns the last step of an order.
func (t *Tracker) Last(lane string) (Step, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range append([]*order{t.probe, t.group, t.members}, t.lanes...) {
		if o.name == lane && o.last != nil {
			return *o.last, true
		}
	}
	return Step{}, false
}

// Done reports whether a broker has answered a step.
func (t *Tracker) Done(lane string, s Step) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done[laneStep{lane, s}]
}

// Answered takes the broker's answer to a request.
func (t *Tracker) Answered(id ID, resp kmsg.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.growLocked()
	req := t.sent[id]
	delete(t.sent, id)
	if req == nil {
		return
	}
	err := kerr.ErrorForCode(wiretap.FirstCode(resp))
	again := err != nil && kerr.IsRetriable(err) || errors.Is(err, kerr.UnstableOffsetCommit) || errors.Is(err, kerr.ConcurrentTransactions)
	at := t.names.place(req)
	for _, o := range t.ordersLocked(at) {
		if o.lastID == id {
			o.again = again
		}
	}
	t.answered[at.name]++
	for _, s := range t.seen[id] {
		t.done[laneStep{s.Lane, s.To}] = true
	}
	if err == nil && at.lanes != laneProbe {
		t.settledLocked(at, req, resp)
	}
}

// settledLocked notes what a broker has carried out.
func (t *Tracker) settledLocked(at place, req kmsg.Request, resp kmsg.Response) {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		t.member = resp.(*kmsg.JoinGroupResponse).MemberID
	case *kmsg.SyncGroupRequest:
		t.syncedLocked(resp.(*kmsg.SyncGroupResponse).MemberAssignment)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		t.heardLocked(resp.(*kmsg.ConsumerGroupHeartbeatResponse))
	case *kmsg.TxnOffsetCommitRequest:
		t.bound[at.p] = req.Topics[0].Partitions[0].Offset
	case *kmsg.OffsetCommitRequest:
		t.committed[at.p] = req.Topics[0].Partitions[0].Offset
	case *kmsg.EndTxnRequest:
		if next, ok := t.bound[at.p]; ok && req.Commit {
			t.committed[at.p] = next
		}
		delete(t.bound, at.p)
	}
}

func (t *Tracker) syncedLocked(assignment []byte) {
	var a kmsg.ConsumerMemberAssignment
	if a.ReadFrom(assignment) != nil {
		return
	}
	var has []int32
	for _, topic := range a.Topics {
		has = append(has, topic.Partitions...)
	}
	t.assignedLocked(has)
}

func (t *Tracker) heardLocked(resp *kmsg.ConsumerGroupHeartbeatResponse) {
	if resp.MemberID != nil {
		t.member = *resp.MemberID
	}
	if resp.Assignment == nil {
		return
	}
	var has []int32
	for _, topic := range resp.Assignment.Topics {
		has = append(has, topic.Partitions...)
	}
	t.assignedLocked(has)
}

// assignedLocked compares an assignment with what the member has.
func (t *Tracker) assignedLocked(has []int32) {
	for p, o := range t.lanes {
		holds := slices.Contains(has, int32(p))
		o.revoked = o.held && !holds
		o.held = holds
	}
}

// Member is the id that the group knows the member by, "" before it has one.
func (t *Tracker) Member() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.member
}

// Committed is the offset of a partition whose commit a broker has acknowledged, whether or not the member
// was told; otherwise if there is none.
func (t *Tracker) Committed(p int32, otherwise int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next, ok := t.committed[p]; ok {
		return next
	}
	return otherwise
}

// Settled reports whether the group's last word to the member was an assignment, or offsets of what it was assigned,
// or the answer to a member of KIP-848 that has told what it holds.
func (t *Tracker) Settled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answeredLocked(t.group, "SyncGroup") || t.answeredLocked(t.group, fetchGroup) || t.answeredLocked(t.members, heartbeatHolds)
}

func (t *Tracker) answeredLocked(o *order, name string) bool {
	return o.last != nil && o.last.Name == name && t.done[laneStep{o.name, *o.last}]
}

// Position is where the member fetches the input, -1 before it does.
func (t *Tracker) Position(p int32) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fetched[p] - 1
}

// Answers is how many requests that are steps of this name were answered.
func (t *Tracker) Answers(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered[name]
}

// Grown is closed when something more is seen or answered.
func (t *Tracker) Grown() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.grown
}

func (t *Tracker) growLocked() {
	close(t.grown)
	t.grown = make(chan struct{})
}
