package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/stream"
)

// Step names the request of a transaction that an error came from: what an error code means depends
// on it.
type Step string

// The requests of a transaction, in the order in which they are sent.
const (
	StepInit       Step = "init"          // InitProducerID
	StepBegin      Step = "begin"         // no request: the client's own state
	StepProduce    Step = "produce"       // Produce, AddPartitionsToTxn
	StepAddOffsets Step = "add-offsets"   // AddOffsetsToTxn
	StepOffset     Step = "offset-commit" // TxnOffsetCommit
	StepEnd        Step = "end"           // EndTxn
)

// StepError is an error together with the request it answered.
type StepError struct {
	Step Step
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }

// Unwrap returns the error of the request.
func (e *StepError) Unwrap() error { return e.Err }

// Binding is an input offset to be committed inside a transaction, with everything that the broker
// checks it against.
type Binding struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16

	Group      string
	MemberID   string
	Generation int32
	InstanceID string // "": no static membership

	Input       stream.Partition
	TopicID     [16]byte // version 6 and later of the request carry it instead of the name
	Next        int64
	LeaderEpoch int32 // -1: unknown
	Metadata    string
}

// BindOffset adds b to the open transaction of cl. With addOffsets, the group is first added to the
// transaction by its own request, which brokers need whose TxnOffsetCommit is below version 5.
//
// It waits out CONCURRENT_TRANSACTIONS until ctx ends: the markers of the transaction before this
// one may still be being written. Every other error is a *StepError with the code in it (kerr).
func BindOffset(ctx context.Context, cl *kgo.Client, b Binding, addOffsets bool) error {
	if addOffsets {
		err := patiently(ctx, func() error { return addOffsetsToTxn(ctx, cl, b) })
		if err != nil {
			return &StepError{Step: StepAddOffsets, Err: err}
		}
	}
	if err := patiently(ctx, func() error { return txnOffsetCommit(ctx, cl, b) }); err != nil {
		return &StepError{Step: StepOffset, Err: err}
	}
	return nil
}

func addOffsetsToTxn(ctx context.Context, cl *kgo.Client, b Binding) error {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.Group = b.TransactionalID, b.Group
	req.ProducerID, req.ProducerEpoch = b.ProducerID, b.ProducerEpoch
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

func txnOffsetCommit(ctx context.Context, cl *kgo.Client, b Binding) error {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group = b.TransactionalID, b.Group
	req.ProducerID, req.ProducerEpoch = b.ProducerID, b.ProducerEpoch
	req.MemberID, req.Generation = b.MemberID, b.Generation
	if b.InstanceID != "" {
		req.InstanceID = &b.InstanceID
	}
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch = b.Input.Partition, b.Next, b.LeaderEpoch
	p.Metadata = &b.Metadata
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.TopicID = b.Input.Topic, b.TopicID
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	// An answer that leaves the partition out would else pass for a success.
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != b.Input.Partition {
		return fmt.Errorf("the broker's answer does not cover %s", b.Input)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// patiently calls do until it answers anything but CONCURRENT_TRANSACTIONS, or ctx ends.
func patiently(ctx context.Context, do func() error) error {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := do()
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// AwaitNoted waits until cl, which has sent records to p, has p in its list of partitions, or ctx ends. The first
// records of a topic are sent before it has, and can be acknowledged before it has. A client that does not have p yet
// does not know when it ends a transaction that p took records.
func AwaitNoted(ctx context.Context, cl *kgo.Client, p stream.Partition) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		// All three are these values only for a partition that the client does not have.
		leader, epoch, err := cl.PartitionLeader(p.Topic, p.Partition)
		if leader != -1 || epoch != -1 || err != nil {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("wait for the client's note of %s: %w", p, context.Cause(ctx))
		}
	}
}
