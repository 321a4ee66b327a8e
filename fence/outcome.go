package fence

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// class says what follows from an error of one step of a transaction.
type class int

const (
	// classTransient: nothing was committed and the cause passes by itself. The client is closed,
	// because its transaction may still be open; after a pause the id is taken over and the same
	// effects go again.
	classTransient class = iota
	// classAbort: the broker asks for an abort. The client aborts and is reused, the same effects go
	// again.
	classAbort
	// classToken: refused by generation (R7). As classAbort, but with another token.
	classToken
	// classFence: refused by producer epoch (R8). As classTransient, and counted: five in a row with
	// no commit between mean that the id is somebody else's.
	classFence
	// classGone: the group does not have this member, or not with this partition. The ownership ends
	// and the client is closed only.
	classGone
	// classReplaced: another process runs under the same static instance id. As classGone, and the
	// process must stop: the two would expel each other for ever.
	classReplaced
	// classRecord: the broker refuses one record for what it is (R10).
	classRecord
	// classInput: the input topic is not the one the state was folded from (R21).
	classInput
	// classFatal: retrying cannot help; a person must act.
	classFatal
	// classSlow: the time for the transaction ran out, and nothing is in doubt. The client is closed, and what
	// it had comes again in smaller transactions (R27).
	classSlow
	// classUnknown: the transaction may or may not be committed (R5).
	classUnknown
)

var classNames = map[class]string{
	classTransient: "transient", classAbort: "abortable", classToken: "generation",
	classFence: "producer-epoch", classGone: "member", classReplaced: "instance",
	classRecord: "record", classInput: "input", classFatal: "fatal", classSlow: "slow", classUnknown: "unknown",
}

// String returns the name that hooks and logs use.
func (c class) String() string { return classNames[c] }

// rowKey is an error code at a step; the empty step stands for every step that has no row.
type rowKey struct {
	code int16
	step wire.Step
}

type row struct {
	class class
	next  string // what a person does about it, for the errors that end the writer
}

// table has the class of each code. Codes that are missing are classed by Kafka's own retriable
// flag: see classify. EndTxn has no rows: whatever its error says, the outcome is unknown (R5).
var table = map[rowKey]row{
	// Producer fences. Somebody initialised the id after us, or the broker aborted a transaction that
	// was older than its timeout and raised the epoch itself: the code does not tell which, so the
	// takeover's read-back has to.
	{kerr.InvalidProducerEpoch.Code, ""}: {class: classFence},
	{kerr.ProducerFenced.Code, ""}:       {class: classFence},
	// A transaction that ran into its timeout: 4.4 answers this, older brokers PRODUCER_FENCED.
	{kerr.InvalidTxnState.Code, ""}: {class: classFence},

	// The coordinator forgot the id (expired, or its log was lost). Initialising it anew is all there
	// is; it is not a sign of a second process, so it does not count as a fence.
	{kerr.InvalidProducerIDMapping.Code, ""}: {class: classTransient},
	{kerr.UnknownProducerID.Code, ""}:        {class: classTransient},
	// The client's idea of the sequence is wrong. Its transaction cannot be completed.
	{kerr.OutOfOrderSequenceNumber.Code, ""}: {class: classTransient},
	{kerr.DuplicateSequenceNumber.Code, ""}:  {class: classTransient},

	// The broker says itself that an abort is enough.
	{kerr.TransactionAbortable.Code, ""}: {class: classAbort},
	// Only a fence by token is compared in a transactional commit; should a broker answer this, the
	// member is known and a later try is right.
	{kerr.RebalanceInProgress.Code, wire.StepOffset}: {class: classAbort},

	// Group fences. The generation may simply have moved on: exact under the grant's member id.
	{kerr.IllegalGeneration.Code, wire.StepOffset}: {class: classToken},
	// The group no longer has this member, or (STALE_MEMBER_EPOCH from 4.3 on) the partition moved.
	{kerr.UnknownMemberID.Code, wire.StepOffset}:      {class: classGone},
	{kerr.FencedMemberEpoch.Code, wire.StepOffset}:    {class: classGone},
	{kerr.StaleMemberEpoch.Code, wire.StepOffset}:     {class: classGone},
	{kerr.GroupIDNotFound.Code, wire.StepOffset}:      {class: classGone},
	{kerr.UnreleasedInstanceID.Code, wire.StepOffset}: {class: classGone},
	{kerr.FencedInstanceID.Code, wire.StepOffset}:     {class: classReplaced, next: "give each process its own instance id"},

	// One record is at fault. Kafka refuses the whole batch; the writer finds the record by sending
	// the suspects one by one.
	{kerr.MessageTooLarge.Code, wire.StepProduce}:             {class: classRecord},
	{kerr.RecordListTooLarge.Code, wire.StepProduce}:          {class: classRecord},
	{kerr.InvalidRecord.Code, wire.StepProduce}:               {class: classRecord},
	{kerr.InvalidTimestamp.Code, wire.StepProduce}:            {class: classRecord},
	{kerr.UnsupportedForMessageFormat.Code, wire.StepProduce}: {class: classRecord},
	{kerr.UnsupportedCompressionType.Code, wire.StepProduce}:  {class: classRecord},
	// A topic that does not exist after the client's own retries belongs to the records sent to it:
	// an output topic is deleted, the partition itself is well.
	{kerr.UnknownTopicOrPartition.Code, wire.StepProduce}: {class: classRecord},
	{kerr.InvalidTopicException.Code, wire.StepProduce}:   {class: classRecord},
	{kerr.UnknownTopicID.Code, wire.StepProduce}:          {class: classRecord},
	// The broker did not look at it, for another record of the request was refused.
	{kerr.OperationNotAttempted.Code, wire.StepProduce}: {class: classTransient},
	{kerr.InconsistentTopicID.Code, wire.StepProduce}:   {class: classRecord},
	{kerr.PolicyViolation.Code, wire.StepProduce}:       {class: classRecord},

	// The input topic was deleted or made again. Its offsets mean nothing any more.
	{kerr.UnknownTopicID.Code, wire.StepOffset}:          {class: classInput, next: "rebuild the state, or restore the topic"},
	{kerr.InconsistentTopicID.Code, wire.StepOffset}:     {class: classInput, next: "rebuild the state, or restore the topic"},
	{kerr.UnknownTopicOrPartition.Code, wire.StepOffset}: {class: classInput, next: "rebuild the state, or restore the topic"},

	// Passing faults of brokers and coordinators. The client has retried them already for as long as
	// it does; CONCURRENT_TRANSACTIONS is waited out by the requests themselves.
	{kerr.ConcurrentTransactions.Code, ""}: {class: classTransient},
	{kerr.UnknownServerError.Code, ""}:     {class: classTransient},

	// A person must act.
	{kerr.TopicAuthorizationFailed.Code, wire.StepProduce}: {class: classFatal, next: "allow WRITE on the topic"},
	{kerr.TopicAuthorizationFailed.Code, ""}:               {class: classFatal, next: "allow READ on the input topic"},
	{kerr.GroupAuthorizationFailed.Code, ""}:               {class: classFatal, next: "allow READ on the group"},
	{kerr.TransactionalIDAuthorizationFailed.Code, ""}:     {class: classFatal, next: "allow WRITE and DESCRIBE on the transactional id"},
	{kerr.ClusterAuthorizationFailed.Code, ""}:             {class: classFatal, next: "allow IDEMPOTENT_WRITE on the cluster (brokers before 2.8)"},
	{kerr.SaslAuthenticationFailed.Code, ""}:               {class: classFatal, next: "check SASL mechanism, user and password"},
	{kerr.InvalidTransactionTimeout.Code, ""}:              {class: classFatal, next: "raise transaction.max.timeout.ms of the brokers, or lower TransactionTimeout"},
	{kerr.UnsupportedVersion.Code, ""}:                     {class: classFatal, next: "upgrade the brokers"},
	{kerr.OffsetMetadataTooLarge.Code, ""}:                 {class: classFatal, next: "raise offset.metadata.max.bytes of the brokers to at least 64"},
	{kerr.InvalidCommitOffsetSize.Code, ""}:                {class: classFatal, next: "raise offset.metadata.max.bytes of the brokers to at least 64"},
	{kerr.InvalidGroupID.Code, ""}:                         {class: classFatal, next: "give the group another name"},
	{kerr.InvalidRequest.Code, ""}:                         {class: classFatal, next: "report this as a bug, with the broker's version"},
}

// classify returns what follows from err.
func classify(err error) (class, string) {
	step := wire.StepBegin
	if e, ok := errors.AsType[*wire.StepError](err); ok {
		step = e.Step
	}
	if step == wire.StepEnd { // even when the end of the ownership has cut the wait for the answer
		return classUnknown, ""
	}
	if errors.Is(err, stream.ErrOwnershipLost) {
		return classGone, "" // the gate, the reader of the token or the read-back says so
	}
	if errors.Is(err, stream.ErrConfig) || errors.Is(err, stream.ErrReservedOption) {
		return classFatal, "correct the configuration" // the client cannot even be made
	}
	if errors.Is(err, stream.ErrTruncated) { // of a read-back, or of a write
		return classFatal, "the progress topic was made again or has lost records: start again, to see what the start policy makes of it"
	}
	code, ok := errors.AsType[*kerr.Error](err)
	if !ok {
		// Errors that the client makes itself. None of them is about one record or the group: a
		// client that was closed, a transport error, an untyped error of BeginTransaction ("already
		// in a transaction", "fatal, unrecoverable"), a bound of ours. The client cannot be trusted
		// with another transaction, and the takeover ends this one.
		return classTransient, ""
	}
	if r, ok := table[rowKey{code.Code, step}]; ok {
		return r.class, r.next
	}
	if r, ok := table[rowKey{code.Code, ""}]; ok {
		return r.class, r.next
	}
	if code.Retriable {
		return classTransient, ""
	}
	return classFatal, "look the code up in the Kafka protocol guide"
}

// codeOf returns the Kafka error code in err, 0 if there is none.
func codeOf(err error) int16 {
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		return e.Code
	}
	return 0
}

// sentinelFor names a fatal or input error for errors.Is.
func sentinelFor(c class, err error) error {
	switch {
	case c == classInput:
		return stream.ErrInputChanged
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return stream.ErrNotAuthenticated
	case errors.Is(err, kerr.UnsupportedVersion):
		return stream.ErrBrokerTooOld
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed),
		errors.Is(err, kerr.TransactionalIDAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return stream.ErrNotAuthorized
	case errors.Is(err, kerr.InvalidTransactionTimeout), errors.Is(err, kerr.InvalidGroupID):
		return stream.ErrConfig
	}
	return nil
}

// Refusal is returned to the waiter whose record the broker refused for what it is. Nothing of that
// waiter was written; the others were written without it.
type Refusal struct {
	Index   int            // index in the records of the call
	Message stream.Message // the record; do not print it, its bytes may be personal data
	Err     error
}

func (e *Refusal) Error() string {
	topic := ""
	if e.Message.Topic != "" {
		topic = " for " + e.Message.Topic
	}
	return fmt.Sprintf("record %d of the write%s (key of %d bytes, value of %d): %v",
		e.Index, topic, len(e.Message.Key), len(e.Message.Value), e.Err)
}

// Unwrap returns the broker's error, joined with ErrTooLarge or ErrOutput where that is what it means.
func (e *Refusal) Unwrap() []error {
	out := []error{e.Err}
	switch {
	case errors.Is(e.Err, kerr.MessageTooLarge), errors.Is(e.Err, kerr.RecordListTooLarge):
		out = append(out, stream.ErrTooLarge)
	case errors.Is(e.Err, kerr.UnknownTopicOrPartition), errors.Is(e.Err, kerr.UnknownTopicID), errors.Is(e.Err, kerr.InvalidTopicException),
		errors.Is(e.Err, kerr.InconsistentTopicID):
		out = append(out, stream.ErrTopic)
	}
	if e.Message.Topic != "" {
		out = append(out, stream.ErrOutput)
	}
	return out
}

// errAnotherCommitted is the cause when a read-back finds somebody else's commit: drop the memory,
// restore and renew.
var errAnotherCommitted = fmt.Errorf("another owner committed: %w", stream.ErrOwnershipLost)

// errMadeBefore is the cause when an attempt turns out to be committed that a read-back took for aborted.
var errMadeBefore = fmt.Errorf("an attempt of this transaction that was read back as aborted is committed: %w", stream.ErrOwnershipLost)
