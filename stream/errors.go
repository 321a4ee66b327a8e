package stream

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/visible"
)

// The sentinels of the whole project. Each names one condition; the comment says what to do.
// Errors are returned wrapped in an *Error that says where it happened: match with errors.Is.
var (
	// ErrConfig: the configuration is wrong. The message lists every fault that was found. Correct
	// them; nothing was read or written.
	ErrConfig = errors.New("configuration is not valid")
	// ErrReservedOption: a raw client option touches something that a guarantee rests on. Remove the
	// option named in the message, or set the field of the configuration that it names instead.
	ErrReservedOption = errors.New("client option is reserved")
	// ErrTopic: a topic is missing or is not set up as the component needs it. The hint has the
	// command that mends it.
	ErrTopic = errors.New("topic is not usable")
	// ErrUnreachable: no broker answered within the stated bound. Check addresses, network and TLS.
	ErrUnreachable = errors.New("brokers cannot be reached")
	// ErrNotAuthenticated: the broker refused the credentials. Check SASL mechanism, user, password.
	ErrNotAuthenticated = errors.New("authentication refused")
	// ErrNotAuthorized: an ACL is missing. The hint names resource and operation.
	ErrNotAuthorized = errors.New("not authorized")
	// ErrBrokerTooOld: the broker lacks a request that the guarantee needs. Upgrade the brokers, or
	// choose another guarantee.
	ErrBrokerTooOld = errors.New("broker is too old")
	// ErrBrokerDoesNotFence: a broker has taken an offset of a generation that its group does not have,
	// so that a stale owner could commit. What answers is not Apache Kafka, or something between
	// rewrites its answers. Use brokers that refuse it, or the guarantee Unfenced, which claims less.
	ErrBrokerDoesNotFence = errors.New("broker does not fence a stale member")
	// ErrOwnershipLost: the partition is no longer this process's. Nothing is to be done: the owner's
	// loop drops the partition, and the new owner goes on from the committed offset.
	ErrOwnershipLost = errors.New("ownership lost")
	// ErrIDTaken: something else keeps initialising the partition's transactional id. Make sure that
	// no second application uses the same group and snapshot topic, then start again.
	ErrIDTaken = errors.New("transactional id is initialised by somebody else")
	// ErrOutcomeUnknown: a transaction's outcome could not be found out before the time for it ran
	// out. The ownership ends and the next owner reads what was committed; nothing is lost.
	ErrOutcomeUnknown = errors.New("outcome of the transaction is unknown")
	// ErrTooSlow: a transaction did not come to its end within its timeout, however little was in it: the
	// brokers take less than that, for a quota, a narrow link, or replicas that lag. Nothing of it was committed.
	// The message says which broker throttles, if one has said so. Raise the quota, or mend what is slow.
	ErrTooSlow = errors.New("transaction ran out of time")
	// ErrNoOffset: a write was asked for before any offset was committed for the partition. Commit
	// first.
	ErrNoOffset = errors.New("no offset to bind the write to")
	// ErrOffsetBack: a commit would move the committed offset back. This is a bug in the caller.
	ErrOffsetBack = errors.New("offset would move back")
	// ErrClosed: the writer was closed. Open a new one under a new ownership.
	ErrClosed = errors.New("closed")
	// ErrTooLarge: a state or record is over the limit that the broker or the topic allows, or a batch
	// that was fetched is larger in memory than a quarter of kafka.Config.FetchBudget. The message names
	// the size, the Key field has the key. Make the state smaller, or raise max.message.bytes or the budget.
	ErrTooLarge = errors.New("record is too large")
	// ErrRestoreStalled: a restore made no progress within its stall timeout. The message has the
	// diagnosis and the hint has the next step.
	ErrRestoreStalled = errors.New("restore stalled")
	// ErrTruncated: a log ends before a position that had been acknowledged, or begins behind the next
	// record to fold. Records were lost by the broker, or deleted. Decide between the start policies
	// that the hint names.
	ErrTruncated = errors.New("log was truncated")
	// ErrOffsetMismatch: the committed offset and the progress record disagree in a way that no
	// crash explains. The hint names the start policies to choose from.
	ErrOffsetMismatch = errors.New("committed offset and progress disagree")
	// ErrSnapshotsLost: records of the snapshot topic were deleted, by cleanup.policy=delete for a while or by
	// DeleteRecords, and with them the states of keys that have no later one. See that the topic is compact
	// and nothing else; then rebuild the states, or adopt what is left. The hint names the start policies.
	ErrSnapshotsLost = errors.New("snapshots were deleted")
	// ErrOtherComponent: the consumer group's offsets were committed by another kind of component (a
	// flow's by a pipe, or the other way round), or it has members of one. Give each component a group of
	// its own.
	ErrOtherComponent = errors.New("group belongs to another kind of component")
	// ErrOtherApplication: the consumer group has members of another application of this kind, which
	// keeps its states or progress in another topic: each would process a part of the input. Give each
	// application a group of its own.
	ErrOtherApplication = errors.New("group belongs to another application")
	// ErrOtherProtocol: the members of the consumer group speak another group protocol, or share no
	// assignor with this one. Stop all of them before Member.Protocol is changed between the classic
	// ones; give each application a group of its own.
	ErrOtherProtocol = errors.New("group's members speak another protocol")
	// ErrInstanceTaken: another process joined with the same static instance id. Give each process an
	// id of its own.
	ErrInstanceTaken = errors.New("instance id is another process's")
	// ErrGroupFull: the group has had as many members as its brokers let it have for longer than a session, so
	// that none of them has died. Stop members that are not needed, or raise the brokers' group.max.size
	// (group.consumer.max.size with ServerSide).
	ErrGroupFull = errors.New("group is full")
	// ErrFlood: more records failed within a minute than the dead-letter policy allows. Nothing past
	// them was committed. Find the cause, which is rarely in the records (a deployment, a schema), or
	// raise MaxPerMinute.
	ErrFlood = errors.New("too many dead letters")
	// ErrOtherGroup: the snapshot topic was written by a flow of another group. No start policy
	// overrides this. Choose another snapshot topic.
	ErrOtherGroup = errors.New("snapshots are another group's")
	// ErrInputChanged: the input topic is not the one that the state was folded from. It was recreated:
	// rebuild the state. Or the states are of an input of another name: no start policy goes on, as they
	// may be another flow's. Give this one a group of its own, or, where its input was renamed, an empty
	// snapshot topic. Or it got more partitions: no start policy mends that, as keys have moved and
	// their old records have not. Copy it to a new topic with a pipe, and fold that under a new group.
	ErrInputChanged = errors.New("input topic changed")
	// ErrFoldVersion: the state was folded by another FoldVersion. Set it back, or choose
	// Rebuild to fold the input again.
	ErrFoldVersion = errors.New("fold version changed")
	// ErrCorruptSnapshot: a snapshot record cannot be decoded. It is never treated as absent. The
	// message names topic, partition and offset, the Key field has the key. Give a codec that reads old
	// states, or choose Rebuild to fold the input again.
	ErrCorruptSnapshot = errors.New("snapshot record cannot be decoded")
	// ErrNoKey: a record has no key and the flow has no Route. Give a Route, or an OnError policy
	// that skips.
	ErrNoKey = errors.New("record has no key")
	// ErrUndeclaredOutput: a fold emitted to a topic that Outputs does not list.
	ErrUndeclaredOutput = errors.New("output topic is not declared")
	// ErrEncode: the codec failed on a state or panicked. The message has its error, the Key field the
	// key. Mend the codec, or the fold that built the state.
	ErrEncode = errors.New("state cannot be encoded")
	// ErrOutput: an output could not be written. The message names the input record it came from.
	ErrOutput = errors.New("output refused")
	// ErrFold: the fold returned an error or panicked, and the policy was to stop.
	ErrFold = errors.New("step failed")
)

// Error says what happened, where, and what to do next. Fields that do not apply are zero;
// Partition and Offset are -1.
type Error struct {
	Op              string // what was being done, as "restore", "commit", "check"
	Topic           string
	Partition       int32
	Offset          int64
	Key             []byte // not printed: keys may be personal data. Read it from the field.
	Group           string
	TransactionalID string
	Hint            string // the next step, a sentence or a command
	Err             error
}

// NewError returns an Error for op with Partition and Offset set to "does not apply".
func NewError(op string, err error) *Error {
	return &Error{Op: op, Partition: -1, Offset: -1, Err: err}
}

// At sets where it happened and returns e.
func (e *Error) At(p Partition, offset int64) *Error {
	e.Topic, e.Partition, e.Offset = p.Topic, p.Partition, offset
	return e
}

// Hinted sets the next step and returns e.
func (e *Error) Hinted(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Error has all of it but the key. What a terminal would obey of texts that came from outside is escaped.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Topic != "" {
		fmt.Fprintf(&b, " %s", visible.Text(e.Topic))
		if e.Partition >= 0 {
			fmt.Fprintf(&b, "/%d", e.Partition)
		}
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " offset %d", e.Offset)
	}
	if e.Key != nil {
		fmt.Fprintf(&b, " (key of %d bytes)", len(e.Key))
	}
	if e.Group != "" {
		fmt.Fprintf(&b, " group %s", visible.Text(e.Group))
	}
	if e.TransactionalID != "" {
		fmt.Fprintf(&b, " transactional id %s", visible.Text(e.TransactionalID))
	}
	cause, stack, found := strings.Cut(visible.Lines(fmt.Sprint(e.Err)), StackMark)
	if e.Hint != "" {
		cause = strings.TrimRight(cause, ".") // of a broker's message
	}
	fmt.Fprintf(&b, ": %s", cause)
	if e.Hint != "" {
		fmt.Fprintf(&b, ". Next: %s", visible.Lines(e.Hint))
	}
	if found {
		b.WriteString(StackMark + stack)
	}
	return b.String()
}

// StackMark stands before the stack in the text of an error that is a panic. Error puts what follows
// it last, so that the cause and the next step are not below forty lines of frames.
const StackMark = "\n\nstack:\n"

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
