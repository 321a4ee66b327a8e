package fence

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// reaction is what the writer does about one error.
type reaction struct {
	err    error // what the caller gets, nil: the write is committed by a later attempt
	opens  int   // takeovers, the first one included
	aborts int   // -1: many
	gone   bool  // the ownership ends
}

var (
	takesOver   = reaction{opens: 2}
	abortsAgain = reaction{opens: 1, aborts: 1}
	losesIt     = reaction{err: stream.ErrOwnershipLost, opens: 1, gone: true}
)

func fatal(sentinel error) reaction { return reaction{err: sentinel, opens: 1} }

// refuses aborts twice: once for the batch, once more when its records are sent one by one.
func refuses(sentinel error) reaction { return reaction{err: sentinel, opens: 1, aborts: 2} }

// waitsAndRefuses does so after it has tried again for a while, with an abort each time.
func waitsAndRefuses(sentinel error) reaction { return reaction{err: sentinel, opens: 1, aborts: -1} }

// outcomes has every code of the table and of DESIGN's rules, with what must follow when it is met
// once.
var outcomes = []struct {
	step wire.Step
	err  error
	want reaction
}{
	{wire.StepProduce, kerr.InvalidProducerEpoch, takesOver},
	{wire.StepOffset, kerr.InvalidProducerEpoch, takesOver},
	{wire.StepAddOffsets, kerr.ProducerFenced, takesOver},
	{wire.StepProduce, kerr.ProducerFenced, takesOver},
	{wire.StepOffset, kerr.ProducerFenced, takesOver},
	{wire.StepOffset, kerr.InvalidTxnState, takesOver},
	{wire.StepProduce, kerr.InvalidTxnState, takesOver},
	{wire.StepProduce, kerr.InvalidProducerIDMapping, takesOver},
	{wire.StepOffset, kerr.InvalidProducerIDMapping, takesOver},
	{wire.StepProduce, kerr.UnknownProducerID, takesOver},
	{wire.StepProduce, kerr.OutOfOrderSequenceNumber, takesOver},
	{wire.StepProduce, kerr.DuplicateSequenceNumber, takesOver},
	{wire.StepProduce, kerr.TransactionAbortable, abortsAgain},
	{wire.StepOffset, kerr.TransactionAbortable, abortsAgain},
	{wire.StepOffset, kerr.RebalanceInProgress, abortsAgain},
	{wire.StepOffset, kerr.UnknownMemberID, losesIt},
	{wire.StepOffset, kerr.FencedMemberEpoch, losesIt},
	{wire.StepOffset, kerr.StaleMemberEpoch, losesIt},
	{wire.StepOffset, kerr.GroupIDNotFound, losesIt},
	{wire.StepOffset, kerr.UnreleasedInstanceID, losesIt},
	{wire.StepOffset, kerr.FencedInstanceID, losesIt},
	{wire.StepProduce, kerr.MessageTooLarge, refuses(stream.ErrTooLarge)},
	{wire.StepProduce, kerr.RecordListTooLarge, refuses(stream.ErrTooLarge)},
	{wire.StepProduce, kerr.InvalidRecord, refuses(kerr.InvalidRecord)},
	{wire.StepProduce, kerr.InvalidTimestamp, refuses(kerr.InvalidTimestamp)},
	{wire.StepProduce, kerr.UnsupportedForMessageFormat, refuses(kerr.UnsupportedForMessageFormat)},
	{wire.StepProduce, kerr.UnsupportedCompressionType, refuses(kerr.UnsupportedCompressionType)},
	{wire.StepProduce, kerr.UnknownTopicOrPartition, waitsAndRefuses(stream.ErrTopic)},
	{wire.StepProduce, kerr.UnknownTopicID, waitsAndRefuses(stream.ErrTopic)},
	{wire.StepProduce, kerr.InconsistentTopicID, refuses(stream.ErrTopic)},
	{wire.StepProduce, kerr.OperationNotAttempted, takesOver}, // for another record of the request, which is not told
	{wire.StepProduce, kerr.InvalidTopicException, refuses(stream.ErrTopic)},
	{wire.StepProduce, kerr.PolicyViolation, refuses(kerr.PolicyViolation)},
	{wire.StepOffset, kerr.UnknownTopicID, waitsAndRefuses(stream.ErrInputChanged)},
	{wire.StepOffset, kerr.InconsistentTopicID, fatal(stream.ErrInputChanged)},
	{wire.StepOffset, kerr.UnknownTopicOrPartition, waitsAndRefuses(stream.ErrInputChanged)},
	{wire.StepOffset, kerr.ConcurrentTransactions, takesOver},
	{wire.StepAddOffsets, kerr.ConcurrentTransactions, takesOver},
	{wire.StepProduce, kerr.UnknownServerError, takesOver},
	{wire.StepOffset, kerr.UnknownServerError, takesOver},
	{wire.StepOffset, kerr.CoordinatorNotAvailable, takesOver},
	{wire.StepOffset, kerr.CoordinatorLoadInProgress, takesOver},
	{wire.StepOffset, kerr.NotCoordinator, takesOver},
	{wire.StepProduce, kerr.NotEnoughReplicas, takesOver},
	{wire.StepProduce, kerr.NotEnoughReplicasAfterAppend, takesOver},
	{wire.StepProduce, kerr.RequestTimedOut, takesOver},
	{wire.StepOffset, kerr.RequestTimedOut, takesOver},
	{wire.StepProduce, kerr.KafkaStorageError, takesOver},
	{wire.StepProduce, kerr.NotLeaderForPartition, takesOver},
	{wire.StepProduce, kerr.TopicAuthorizationFailed, fatal(stream.ErrNotAuthorized)},
	{wire.StepOffset, kerr.TopicAuthorizationFailed, fatal(stream.ErrNotAuthorized)},
	{wire.StepOffset, kerr.GroupAuthorizationFailed, fatal(stream.ErrNotAuthorized)},
	{wire.StepProduce, kerr.TransactionalIDAuthorizationFailed, fatal(stream.ErrNotAuthorized)},
	{wire.StepProduce, kerr.ClusterAuthorizationFailed, fatal(stream.ErrNotAuthorized)},
	{wire.StepProduce, kerr.SaslAuthenticationFailed, fatal(stream.ErrNotAuthenticated)},
	{wire.StepOffset, kerr.UnsupportedVersion, fatal(stream.ErrBrokerTooOld)},
	{wire.StepOffset, kerr.OffsetMetadataTooLarge, fatal(kerr.OffsetMetadataTooLarge)},
	{wire.StepOffset, kerr.InvalidCommitOffsetSize, fatal(kerr.InvalidCommitOffsetSize)},
	{wire.StepOffset, kerr.InvalidGroupID, fatal(stream.ErrConfig)},
	{wire.StepOffset, kerr.InvalidRequest, fatal(kerr.InvalidRequest)},
	{wire.StepOffset, kerr.InvalidPartitions, fatal(kerr.InvalidPartitions)}, // a code without a row

	// Errors of the client itself: a client that is not understood is closed and replaced.
	{wire.StepBegin, errors.New("invalid attempt to begin a transaction while already in a transaction"), takesOver},
	{wire.StepBegin, errors.New("producer ID has a fatal, unrecoverable error"), takesOver},
	{wire.StepProduce, kgo.ErrClientClosed, takesOver},
	{wire.StepProduce, kgo.ErrRecordTimeout, takesOver},
	{wire.StepOffset, errors.New("connection reset"), takesOver},
	{wire.StepOffset, context.DeadlineExceeded, takesOver},

	// Every error of the end is an unknown outcome: read back, here as aborted, and sent again.
	{wire.StepEnd, kerr.OperationNotAttempted, takesOver},
	{wire.StepEnd, kerr.ProducerFenced, takesOver},
	{wire.StepEnd, kerr.InvalidTxnState, takesOver},
	{wire.StepEnd, kerr.TransactionAbortable, takesOver},
	{wire.StepEnd, kerr.IllegalGeneration, takesOver},
	{wire.StepEnd, kerr.TransactionalIDAuthorizationFailed, takesOver},
	{wire.StepEnd, kgo.ErrClientClosed, takesOver},
	{wire.StepEnd, errors.New("EOF"), takesOver},
}

// Public case B11.
func TestOutcomeOfEachError(t *testing.T) {
	t.Parallel()
	for _, o := range outcomes {
		t.Run(fmt.Sprintf("%s/%v", o.step, o.err), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, own := newRecorder(), newFakeSession().grant()
				failed := false
				c, _ := classify(&wire.StepError{Step: o.step, Err: o.err})
				stays := c == classRecord || c == classInput
				r.fail = func(s wire.Step, _ int) error {
					// The fake has one request for both steps of the offset.
					if failed || s != o.step && !(s == wire.StepOffset && o.step == wire.StepAddOffsets) {
						return nil
					}
					failed = !stays // such a record is refused each time, and such an input
					return o.err
				}
				w := fakeWriter(t, r, own, 3)
				err := w.Commit(t.Context(), Offset{4, -1}, put("k", "v"))
				if (o.want.err == nil) != (err == nil) || !errors.Is(err, o.want.err) {
					t.Errorf("the caller got %v, want %v", err, o.want.err)
				}
				state, txns := r.snapshot()
				if stored := state["k"] == "v"; stored != (o.want.err == nil) || len(txns) > 1 {
					t.Errorf("stored %v in %d transactions", stored, len(txns))
				}
				if r.opens != o.want.opens {
					t.Errorf("%d takeovers, want %d", r.opens, o.want.opens)
				}
				if gone := own.State() == Gone; gone != o.want.gone {
					t.Errorf("I3: gone %v, want %v", gone, o.want.gone)
				}
				if n := r.count("abort"); n != o.want.aborts && (o.want.aborts >= 0 || n < 10) {
					t.Errorf("%d aborts, want %d", n, o.want.aborts)
				}
			})
		})
	}
}

// Each row of the table must be met by a case above, so that no row is there untested.
// Public case B11.
func TestOutcomeTableIsCovered(t *testing.T) {
	t.Parallel()
	covered := map[rowKey]bool{}
	for _, o := range outcomes {
		var code *kerr.Error
		if !errors.As(o.err, &code) || o.step == wire.StepEnd {
			continue
		}
		key := rowKey{code.Code, o.step}
		if _, ok := table[key]; !ok {
			key.step = ""
		}
		covered[key] = true
	}
	// These are met in tests of their own: by generation, and at the takeover.
	covered[rowKey{kerr.IllegalGeneration.Code, wire.StepOffset}] = true
	covered[rowKey{kerr.InvalidTransactionTimeout.Code, ""}] = true
	for key := range table {
		if !covered[key] {
			t.Errorf("no case for %v at %q", kerr.ErrorForCode(key.code), key.step)
		}
	}
}

// At the takeover too, what passes is tried again, and what does not names its remedy.
func TestOutcomeOfTakeover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want error
	}{
		{kerr.CoordinatorLoadInProgress, nil},
		{kerr.ConcurrentTransactions, nil},
		{kerr.ProducerFenced, nil},
		{errors.New("EOF"), nil},
		{kerr.InvalidTransactionTimeout, stream.ErrConfig},
		{kerr.TransactionalIDAuthorizationFailed, stream.ErrNotAuthorized},
		{kerr.SaslAuthenticationFailed, stream.ErrNotAuthenticated},
		{fmt.Errorf("the gate said no: %w", stream.ErrOwnershipLost), stream.ErrOwnershipLost},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder()
				r.fail = func(wire.Step, int) error {
					if r.opens == 1 {
						return c.err
					}
					return nil
				}
				conf := Config{Group: "g", Ownership: newFakeSession().grant(), Input: stream.Partition{Topic: "i"}, Progress: stream.Partition{Topic: "p"}}
				conf, err := conf.resolved()
				if err != nil {
					t.Fatal(err)
				}
				w, _, err := open(t.Context(), conf, "id", fakeOpener{r})
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("open: %v, want %v", err, c.want)
				}
				if w != nil {
					closeWriter(t, w)
				}
			})
		})
	}
}

// What a refused record is, is one thing to the writer and to whoever sends beside a transaction: they look for the
// one at fault by the same codes.
func TestRefusalsOfRecordsAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	for key, row := range table {
		code := kerr.ErrorForCode(key.code)
		if key.step != wire.StepProduce || isAbsent(code) || errors.Is(code, kerr.InvalidTopicException) || errors.Is(code, kerr.InconsistentTopicID) {
			continue // of a topic, and so of all its records
		}
		if got := wire.OfRecord(code); got != (row.class == classRecord) {
			t.Errorf("%v is of the class %v, and wire.OfRecord says %t", code, row.class, got)
		}
	}
}
