package member

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// Lasts says for how long an answer of the group stays what it is.
type Lasts int

const (
	// Passes: it is ordinary in the life of a group, and the client goes on behind it. One that is given for
	// ever is no useful answer, and UnreachableTimeout ends it (fence.Group.Silence).
	Passes Lasts = iota
	// Stays: asking again does not change it, and the member stops.
	Stays
	// PastASession: it may be about a process that died, whose session is not over yet. What is still answered
	// after that stays.
	PastASession
)

// Answer is an error code that a group, or the search for its coordinator, can answer.
type Answer struct {
	Code  *kerr.Error
	To    []kmsg.Key // the requests that it can come to, by Kafka's protocol
	Lasts Lasts
	Is    error // of a lasting one: the condition that ends Run

	what string // of a lasting one: what it says, as of the session that is given to next
	next func(fence.Session) string
}

// Requests of a member.
var (
	joining    = []kmsg.Key{kmsg.JoinGroup, kmsg.ConsumerGroupHeartbeat}
	classic    = []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat}
	next848    = []kmsg.Key{kmsg.ConsumerGroupHeartbeat}
	member     = []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat, kmsg.OffsetFetch}
	everywhere = append(slices.Clone(member), kmsg.FindCoordinator)
)

// Answers is every code that JoinGroup, SyncGroup, Heartbeat, ConsumerGroupHeartbeat, FindCoordinator and the
// OffsetFetch of a member can be answered (R32). One that is not in it passes: it is tried on, is named in the
// log, and counts as no answer.
var Answers = []Answer{
	{Code: kerr.GroupAuthorizationFailed, To: everywhere, Lasts: Stays, Is: stream.ErrNotAuthorized,
		what: "the principal may not read the group", next: func(s fence.Session) string { return "allow READ on group " + s.Group }},
	{Code: kerr.TopicAuthorizationFailed, To: append(slices.Clone(next848), kmsg.OffsetFetch), Lasts: Stays, Is: stream.ErrNotAuthorized,
		what: "the principal may not see an input topic", next: func(fence.Session) string { return "allow READ and DESCRIBE on each input topic" }},
	{Code: kerr.ClusterAuthorizationFailed, To: []kmsg.Key{kmsg.FindCoordinator}, Lasts: Stays, Is: stream.ErrNotAuthorized,
		what: "the principal may not ask for the coordinator", next: func(s fence.Session) string { return "allow READ on group " + s.Group }},
	{Code: kerr.FencedInstanceID, To: append(slices.Clone(classic), next848...), Lasts: Stays, Is: stream.ErrInstanceTaken,
		what: "another process joined with the instance id", next: ownInstance},
	{Code: kerr.UnreleasedInstanceID, To: joining, Lasts: PastASession, Is: stream.ErrInstanceTaken,
		what: "the instance id is another's", next: ownInstance},
	{Code: kerr.GroupMaxSizeReached, To: joining, Lasts: PastASession, Is: stream.ErrGroupFull,
		what: "the group has as many members as the brokers let it have", next: moreMembers},
	{Code: kerr.InconsistentGroupProtocol, To: append(slices.Clone(classic), next848...), Lasts: Stays, Is: stream.ErrOtherProtocol,
		what: "the group does not take the protocol", next: func(s fence.Session) string {
			return fmt.Sprintf("it has members that do not speak %v: stop all of its members before Member.Protocol is changed between Cooperative and Eager,"+
				" and use a group of its own for each application", s.Protocol)
		}},
	{Code: kerr.UnsupportedAssignor, To: next848, Lasts: Stays, Is: stream.ErrOtherProtocol,
		what: "the brokers do not assign by uniform", next: func(fence.Session) string {
			return "have uniform in group.consumer.assignors of the brokers, which is their default, or leave Member.Protocol unset"
		}},
	{Code: kerr.InvalidSessionTimeout, To: []kmsg.Key{kmsg.JoinGroup}, Lasts: Stays, Is: stream.ErrConfig,
		what: "the brokers do not take the session timeout", next: func(fence.Session) string {
			return "choose one between the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms"
		}},
	{Code: kerr.InvalidGroupID, To: everywhere, Lasts: Stays, Is: stream.ErrConfig,
		what: "the brokers do not take the group's name", next: func(fence.Session) string { return "choose another Group" }},
	{Code: kerr.InvalidRequest, To: everywhere, Lasts: Stays, Is: stream.ErrConfig,
		what: "a broker finds a request malformed", next: func(fence.Session) string {
			return "compare Group and Member of the configuration with the brokers' log, which says what it does not take"
		}},
	{Code: kerr.InvalidRegularExpression, To: next848, Lasts: Stays, Is: stream.ErrConfig,
		what: "the brokers do not take the subscription", next: func(fence.Session) string {
			return "topics are subscribed to by name: look for something between that rewrites requests"
		}},
	{Code: kerr.UnsupportedVersion, To: everywhere, Lasts: Stays, Is: stream.ErrBrokerTooOld,
		what: "a broker does not serve a request of the group protocol", next: func(fence.Session) string {
			return "upgrade the brokers, remove a kgo.MaxVersions that is too low, or leave Member.Protocol unset"
		}},

	{Code: kerr.CoordinatorNotAvailable, To: everywhere},
	{Code: kerr.CoordinatorLoadInProgress, To: everywhere},
	{Code: kerr.NotCoordinator, To: member},
	{Code: kerr.UnknownMemberID, To: member},
	{Code: kerr.MemberIDRequired, To: []kmsg.Key{kmsg.JoinGroup}},
	{Code: kerr.RebalanceInProgress, To: classic},
	{Code: kerr.IllegalGeneration, To: []kmsg.Key{kmsg.SyncGroup, kmsg.Heartbeat, kmsg.OffsetFetch}},
	{Code: kerr.FencedMemberEpoch, To: next848},
	{Code: kerr.StaleMemberEpoch, To: append(slices.Clone(next848), kmsg.OffsetFetch)},
	{Code: kerr.GroupIDNotFound, To: append(slices.Clone(next848), kmsg.OffsetFetch)},
	{Code: kerr.UnstableOffsetCommit, To: []kmsg.Key{kmsg.OffsetFetch}},
	{Code: kerr.RequestTimedOut, To: everywhere},
	{Code: kerr.UnknownServerError, To: everywhere},
}

func ownInstance(fence.Session) string { return "give each process an instance id of its own" }

func moreMembers(s fence.Session) string {
	setting := "group.max.size"
	if s.Protocol == fence.ServerSide {
		setting = "group.consumer.max.size"
	}
	return "stop members that are not needed, or raise " + setting + " of the brokers: partitions are shared by the members that are in the group"
}

// refusals tell what is about a process that died from what stays: by code, since when it is answered.
// They are the polling goroutine's.
type refusals map[int16]*refusal

type refusal struct{ first, last time.Time }

// forgotten is longer than the client's pause between two attempts to join: a refusal after that is another
// matter.
const forgotten = time.Minute

// outlasts reports whether the same answer has been given for longer than a dead process has a session.
func (rs refusals) outlasts(now time.Time, s fence.Session, code int16) bool {
	r := rs[code]
	if r == nil {
		r = &refusal{}
		rs[code] = r
	}
	if now.Sub(r.last) > forgotten {
		r.first = now
	}
	r.last = now
	limit := s.SessionTimeout + 2*s.HeartbeatInterval + 10*time.Second // the broker looks at its sessions in its own time
	return now.Sub(r.first) >= limit
}

// lasting returns the error that the member stops with for an answer of its group, nil if it may pass.
func (rs refusals) lasting(now time.Time, s fence.Session, err error) error {
	i := slices.IndexFunc(Answers, func(a Answer) bool { return errors.Is(err, a.Code) })
	if i < 0 || Answers[i].Lasts == Passes {
		return nil
	}
	a := Answers[i]
	if a.Lasts == PastASession && !rs.outlasts(now, s, a.Code.Code) {
		return nil
	}
	e := stream.NewError("join", fmt.Errorf("%s: %w: %w", a.says(s), a.Is, err))
	e.Group = s.Group
	return e.Hinted("%s", a.next(s))
}

// says is what the answer says, with what it is about.
func (a Answer) says(s fence.Session) string {
	text := a.what
	switch a.Is {
	case stream.ErrInstanceTaken:
		text = strings.Replace(text, "the instance id", fmt.Sprintf("instance id %q", s.InstanceID), 1)
	case stream.ErrConfig:
		if a.Code == kerr.InvalidSessionTimeout {
			text = fmt.Sprintf("%s %v", text, s.SessionTimeout)
		}
	}
	if a.Lasts == PastASession {
		text += fmt.Sprintf(", for longer than a session of %v", s.SessionTimeout)
	}
	return text
}
