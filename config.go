package holdfast

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Guarantee is what a flow promises about its state in the face of other owners and crashes.
type Guarantee int

const (
	// FencedState writes snapshots and offsets in one transaction that a stale owner cannot commit.
	// The state of a key is the result of the input up to its applied offset, each record once.
	// Outputs are at-least-once: they are acknowledged before the snapshot that covers them.
	FencedState Guarantee = iota
	// FencedOutputs writes outputs, dead letters, snapshots and the input's offset in one transaction
	// that a stale owner cannot commit: for readers of the outputs that set
	// isolation.level=read_committed each output is there once, in the order of its key's steps, and
	// together with the offset and the state that belong to it or not at all. It commits often, since
	// an output is not visible before (Commit.Interval, 100 ms).
	FencedOutputs
	// Unfenced writes snapshots with an idempotent producer and commits offsets through the
	// consumer. It needs no transactions, and a stale owner can overwrite newer state with older:
	// use it where that is acceptable, never to save effort.
	Unfenced
)

// String returns the name of the guarantee.
func (g Guarantee) String() string {
	switch g {
	case FencedState:
		return "FencedState"
	case FencedOutputs:
		return "FencedOutputs"
	case Unfenced:
		return "Unfenced"
	}
	return "Guarantee(?)"
}

// Config describes a flow. The zero value of a field means its default; fields without a default
// are marked required. New copies it.
type Config[S any] struct {
	// Kafka is the connection. Required: at least one broker.
	Kafka kafka.Config
	// Group is the consumer group. Required. It also names the snapshot topic and the transactional
	// ids: renaming it makes a new application with no state.
	Group string
	// Inputs names the input topic. Required: exactly one.
	Inputs []string
	// Snapshots describes the compacted topic that holds the states.
	Snapshots Snapshots
	// Codec turns a state into bytes and back. Required. It is called from several goroutines, one a
	// partition.
	Codec codec.Codec[S]
	// Fold applies one record to the state of its key. Required. Calls are serial in a partition,
	// in offset order, and side by side over partitions; ctx ends when the partition is no longer
	// owned. The record's bytes may be kept. If it fails or panics nothing of the call remains, and
	// OnError decides. Chain makes one fold of several.
	Fold func(ctx context.Context, k *Key[S], r stream.Record) error
	// Route gives the key that a record belongs to. nil: the record's key; a record without one goes
	// to OnError with ErrNoKey, and so does one for which Route returns a nil key and ok true. An empty
	// key is a key like any other. It must be a pure function of the record: ok false skips the record,
	// its offset advances. The state of a routed key stays in the partition of the input record.
	Route func(r stream.Record) (key []byte, ok bool)
	// FoldVersion names the present meaning of Route and Fold. Change it when a change of them
	// changes what the state of a past record would be; a flow whose state was folded under another
	// version then stops with ErrFoldVersion unless Start says otherwise.
	FoldVersion string
	// Outputs lists the only topics that Key.Emit may name. Each is checked at start.
	Outputs []string
	// Guarantee is FencedState unless set.
	Guarantee Guarantee
	// OnError decides about a record whose step failed. nil: stream.Stop. It is called from the
	// partition's goroutine and may block; ctx ends with the ownership. dlq.Classes makes one of rules
	// per class of error. Under FencedOutputs it is also asked about a record whose outputs or state
	// the broker did not take, after the state has gone back to the last committed one.
	OnError func(ctx context.Context, e *stream.RecordError) stream.Action
	// DeadLetters says where records go for which OnError returns stream.DeadLetter or
	// stream.RetryThenDeadLetter, which it requires. nil: nowhere, and these stop the flow.
	DeadLetters *dlq.Policy
	// Clone returns a deep copy of a state. It is called when a fold asks for the state (Key.State), once
	// a step, from the partition's goroutine, and not at all for an S without references. It is wanted
	// where S holds references (maps, slices, pointers), since a fold may have changed what it was given
	// when it fails; New warns where it is missing. Without it the first such failure makes the partition
	// commit what precedes the record, drop its memory and restore; from then on the process encodes the
	// state before each step that asks for it, and decodes it if the step fails, which costs more than Clone.
	Clone func(S) S
	// Member sets the timings of the group membership.
	Member Member
	// Start says what to do where there is no committed offset, or where it does not agree with the
	// snapshots.
	Start Start
	// Restore bounds the restore.
	Restore Restore
	// Commit sets when and how much is committed.
	Commit Commit
	// Logger receives log lines. nil: none.
	Logger *slog.Logger
	// Hooks are called as things happen; module prom returns one for Prometheus.
	Hooks []Hooks
}

// Snapshots describes the snapshot topic. It belongs to one flow alone and has a partition for each one
// of the input topic; more are not used.
type Snapshots struct {
	// Topic is its name. "": the group's name with "-snapshots" appended, which New refuses if Kafka would, or if it
	// differs from another topic's in dots and underscores alone.
	Topic string
	// Create makes the topic at start if it is missing. nil: a missing topic refuses the start.
	Create *TopicConfig
}

// TopicConfig says how a topic is created.
type TopicConfig struct {
	// Replicas is the replication factor. 0: the broker's default. Use 3 in production.
	Replicas int16
	// Configs are topic configurations, by their Kafka names. cleanup.policy is set by Holdfast. Unless they are here,
	// segment.bytes is 50 MiB and max.compaction.lag.ms an hour, so that a restore reads few old versions of a key.
	Configs map[string]string
}

// Protocol is how the members of a group share its partitions.
type Protocol = fence.Protocol

// The protocols. Every member of a group uses the same one.
const (
	// Cooperative is the classic protocol with the cooperative-sticky assignor, and the default: a
	// partition that stays with a member is folded on during a rebalance.
	Cooperative = fence.Cooperative
	// Eager is the classic protocol in which every member commits and gives up all of its partitions in
	// each rebalance, and takes over and restores what it is given. Use it beside members of other programs
	// that are eager. It offers the assignors sticky, range and roundrobin.
	Eager = fence.Eager
	// ServerSide is KIP-848, Kafka's group.protocol=consumer: the broker assigns the partitions, with its
	// assignor uniform, and moves only those that change their owner. It takes Kafka 4.3 or newer, and
	// refuses to start with ErrBrokerTooOld on others. Member.SessionTimeout and Member.HeartbeatInterval
	// must be unset: the group's configuration at the brokers has them, consumer.session.timeout.ms (45 s
	// unless set, so that a dead owner is noticed after that) and consumer.heartbeat.interval.ms (5 s).
	ServerSide = fence.ServerSide
)

// Member sets protocol and timings of the group membership. What comes of them is logged at start, in the
// line "member timings".
type Member struct {
	// Protocol is Cooperative unless set. To change between Cooperative and Eager stop all members first: a
	// member with the other one is refused by the group and stops (ErrOtherProtocol). Between these and ServerSide members
	// can be changed one by one.
	Protocol Protocol
	// InstanceID makes the member static (KIP-345): it gets its partitions back if it is started again
	// within the session timeout, with no rebalance. Each process needs an id of its own: of two with one id, one stops
	// (ErrInstanceTaken). "": dynamic.
	InstanceID string
	// SessionTimeout is how long the group waits for a silent member. Default 10 s. Must be unset with
	// ServerSide.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the group waits for a member to give partitions up. Default 60 s.
	RebalanceTimeout time.Duration
	// HeartbeatInterval is the time between heartbeats. Default 3 s, at most a third of the session. Must
	// be unset with ServerSide.
	HeartbeatInterval time.Duration
	// TransactionTimeout is how long the broker lets a transaction stay open. Default 30 s, at most
	// 30 s.
	TransactionTimeout time.Duration
	// UnreachableTimeout is how long the group may give no answer that lets the member go on, or a
	// partition not be taken over, before Run ends with ErrUnreachable; until then it is tried again. It is
	// also the least time for which writes that run out of time, however small, go on before ErrTooSlow.
	// Default 5 min, which outlasts a rolling restart of the brokers; at least three heartbeat intervals.
	UnreachableTimeout time.Duration
	// QueueRecords is how many fetched records may wait for one partition's fold before fetching
	// pauses for it. Default 2000.
	QueueRecords int
}

// Position is where a new flow begins.
type Position int

const (
	// Earliest begins at the first record that the input still has.
	Earliest Position = iota
	// Latest begins after the last record at the time of the first assignment.
	Latest
	// AtTime begins at the first record that is not older than Start.Time.
	AtTime
)

// Disagreement is what to do where committed offset and snapshots do not agree.
type Disagreement int

const (
	// StopAndAsk refuses to start the partition, with an error that says what was found.
	StopAndAsk Disagreement = iota
	// ResumeAtProgress begins at the offset that the snapshots were written for, where the committed
	// offset is missing (it expired, or the group was deleted).
	ResumeAtProgress
	// AdoptEmpty begins at the committed offset with empty states, where there are no snapshots.
	AdoptEmpty
	// AdoptRemaining goes on with the states that are left where snapshots were deleted (ErrSnapshotsLost):
	// keys that have none any more begin at nothing. Take it out of the configuration once it has run, or
	// the next loss is adopted without asking.
	AdoptRemaining
	// Rebuild drops all states and folds the input again from its beginning, under the next
	// incarnation.
	Rebuild
	// ResumeAtLogStart goes on at the first record that the input still has, with the states as they are,
	// where records were deleted before they were folded (ErrTruncated). Log line and hook Gone say which
	// offsets are passed over.
	ResumeAtLogStart
)

// Start is the start policy (docs/concepts.md has the table).
type Start struct {
	// New is where a flow with neither offset nor snapshots begins. It is resolved once and
	// committed before the first fold.
	New Position
	// Time is for AtTime.
	Time time.Time
	// Disagreement is what to do where offset and snapshots disagree.
	Disagreement Disagreement
}

// Restore bounds the restore of a partition.
type Restore struct {
	// StallTimeout is how long a restore may make no progress before it fails with
	// ErrRestoreStalled and a diagnosis. Default 3 min.
	StallTimeout time.Duration
	// RetainBytes bounds the memory of partitions that a rebalance took away: their states are kept, and
	// if such a partition comes back with nobody having committed meanwhile they are used, instead of
	// read from Kafka again. That is decided by one fetch, after the takeover. It counts keys and states
	// as they are when written, and 256 bytes for each key; what is kept longest is dropped first. Nothing
	// is kept under Unfenced, after a loss, a failed step or an unknown outcome, or while states cannot be
	// written. Default 256 MiB: the process has held these very states a moment before. Negative: keep
	// nothing.
	RetainBytes int64
	// RetainFor is how long they are kept. Default 2 min, which outlasts a rebalance with the default
	// timeouts. Negative: keep nothing.
	RetainFor time.Duration
}

// OnPersistError is what happens when a state cannot be written (it is too large, or its codec
// fails).
type OnPersistError int

const (
	// StopOnPersistError stops the partition with an error that names the key.
	StopOnPersistError OnPersistError = iota
	// KeepDirty keeps the key in memory and tries again with its next change or persist interval.
	// Other keys go on; the committed offset stays behind the key's oldest unwritten record.
	KeepDirty
)

// Commit sets when and how much is committed.
type Commit struct {
	// Persist is how long a changed state may wait for its snapshot. Default 30 s. FencedOutputs refuses
	// it: every changed state is in the batch that has its outputs.
	Persist time.Duration
	// PersistCooldown is the least time between two snapshots of a key that Key.Persist asked for;
	// requests within it are dropped. Default 1 s. Under FencedOutputs, where every batch has the states
	// that changed, Key.Persist closes the batch at once.
	PersistCooldown time.Duration
	// Interval is the time between commits of the offset alone. Default 5 s. Under FencedOutputs it is
	// the time after which a batch is closed, by default 100 ms, and never more than half the
	// transaction timeout; what is folded while one batch commits goes into the next one.
	Interval time.Duration
	// MaxWrites is the most snapshots in one transaction. Default 256. Under FencedOutputs it bounds
	// all records of a batch, by default 10,000: one that has reached it is closed, and as a batch is
	// never split, the outputs of the last step may exceed it.
	MaxWrites int
	// MaxBytes is the most bytes in one transaction. Default 4 MiB. Under FencedOutputs it works as
	// MaxWrites does, with states counted as large as when they were last written.
	MaxBytes int64
	// RevokeBudget is how long a revoke, and the end of Run, may take to commit what was folded. Default: 15 s, or
	// half the rebalance timeout if that is less, and never more than it less the heartbeat interval and 2 s. The
	// end of Run takes up to 10 s more when brokers are silent: a process needs as much before it is killed.
	RevokeBudget time.Duration
	// OnPersistError is StopOnPersistError unless set. FencedOutputs refuses KeepDirty: a batch that
	// lacks one key's state would not be the result of its records.
	OnPersistError OnPersistError
}

// Hooks is a set of functions that a flow calls as things happen.
type Hooks = stream.Hooks
