package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Holder is one open transaction on a partition. What could not be found out is empty or zero.
type Holder struct {
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32
	FirstOffset      int64     // where the transaction begins on this partition: readers stop here
	LastWrite        time.Time // of this producer on this partition

	TransactionalID string
	State           string        // the coordinator's word: Ongoing, PrepareAbort, CompleteCommit, …
	CurrentEpoch    int16         // the epoch the coordinator has for the id, only beside State
	Started         time.Time     // start of the coordinator's current transaction
	Timeout         time.Duration // after it the coordinator aborts

	// Unknown says why the fields above are incomplete, with the command that grants what is missing.
	Unknown string
}

// Holders returns the open transactions on the partition, by first offset. The partition's leader is
// asked who writes, and the coordinators which transactional id that is; when they cannot be asked,
// the holders come without it and say why. An error means that the leader could not be asked; a
// missing permission is stream.ErrNotAuthorized with the command that grants it.
func (l Log) Holders(ctx context.Context) ([]Holder, error) {
	known := leader{broker: -1}
	var holders []Holder
	err := l.retry(ctx, "describe producers", &known, nil, func(on leader) (err error) {
		holders, err = l.producers(ctx, on)
		return err
	})
	if err != nil || len(holders) == 0 {
		return nil, err
	}
	slices.SortFunc(holders, func(a, b Holder) int { return int(min(1, max(-1, a.FirstOffset-b.FirstOffset))) })
	l.identify(ctx, holders)
	return holders, nil
}

func (l Log) producers(ctx context.Context, on leader) ([]Holder, error) {
	req := kmsg.NewPtrDescribeProducersRequest()
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = l.Topic, []int32{l.Partition}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, l.Client.Broker(int(on.broker)))
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the broker answered another number of partitions than was asked")
	}
	p := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return nil, err
	}
	var holders []Holder
	for _, a := range p.ActiveProducers {
		if a.CurrentTxnStartOffset < 0 {
			continue
		}
		h := Holder{ProducerID: a.ProducerID, ProducerEpoch: int16(a.ProducerEpoch),
			CoordinatorEpoch: a.CoordinatorEpoch, FirstOffset: a.CurrentTxnStartOffset}
		if a.LastTimestamp > 0 {
			h.LastWrite = time.UnixMilli(a.LastTimestamp)
		}
		holders = append(holders, h)
	}
	return holders, nil
}

// identify fills in what the transaction coordinators know about the holders.
func (l Log) identify(ctx context.Context, holders []Holder) {
	adm := kadm.NewClient(l.Client)
	pids := make([]int64, len(holders))
	for i := range holders {
		pids[i] = holders[i].ProducerID
	}
	listed, listErr := adm.ListTransactions(ctx, pids, nil)
	ids := map[int64]string{}
	for _, t := range listed {
		ids[t.ProducerID] = t.TxnID
	}
	for i := range holders {
		h := &holders[i]
		id, ok := ids[h.ProducerID]
		switch {
		case ok:
			h.TransactionalID = id
			l.describe(ctx, adm, h)
		case listErr != nil:
			h.Unknown = fmt.Sprintf("its transactional id could not be asked for: %v", listErr)
		default:
			// A coordinator leaves out what the principal may not describe, without an error, so that
			// a forgotten transaction and a hidden one look the same.
			h.Unknown = "no coordinator shows a transactional id for it: either none knows it any more (it hangs), " +
				"or this principal may not see it; to let it: " + GrantTransactionalID(l.Client, "'*'", "Describe")
		}
	}
}

// TransactionalIDs returns the transactional id of each producer id that a coordinator shows to this
// principal. Coordinators forget ids that were idle for transactional.id.expiration.ms, and leave out,
// without an error, those that the principal may not Describe. Beside an error, what was found comes.
func TransactionalIDs(ctx context.Context, cl *kgo.Client) (map[int64]string, error) {
	listed, err := kadm.NewClient(cl).ListTransactions(ctx, nil, nil)
	ids := make(map[int64]string, len(listed))
	for _, t := range listed {
		ids[t.ProducerID] = t.TxnID
	}
	if err != nil {
		return ids, fmt.Errorf("list transactional ids: %w", err)
	}
	return ids, nil
}

func (l Log) describe(ctx context.Context, adm *kadm.Client, h *Holder) {
	described, err := adm.DescribeTransactions(ctx, h.TransactionalID)
	t, ok := described[h.TransactionalID]
	if err == nil && ok {
		err = t.Err
	}
	switch {
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		h.Unknown = "this principal may not describe it; to let it: " + GrantTransactionalID(l.Client, h.TransactionalID, "Describe")
	case err != nil:
		h.Unknown = fmt.Sprintf("its transaction could not be described: %v", err)
	case !ok:
		h.Unknown = "its coordinator did not describe it"
	default:
		h.State, h.CurrentEpoch = t.State, t.ProducerEpoch
		h.Timeout = time.Duration(t.TimeoutMillis) * time.Millisecond
		if t.StartTimestamp > 0 {
			h.Started = time.UnixMilli(t.StartTimestamp)
		}
	}
}

// OpenOn reports whether the transactional id has a transaction open that holds this partition. An
// error means that it could not be found out, as with brokers older than 3.0.
func (l Log) OpenOn(ctx context.Context, transactionalID string) (bool, error) {
	described, err := kadm.NewClient(l.Client).DescribeTransactions(ctx, transactionalID)
	t, ok := described[transactionalID]
	if err == nil && ok {
		err = t.Err
	}
	if errors.Is(err, kerr.TransactionalIDNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, here := t.Topics[l.Topic][l.Partition]
	return ok && t.State == "Ongoing" && here, nil
}

// AbortCommand returns the command by which an operator aborts the holder's transaction.
func (l Log) AbortCommand(h Holder) string {
	return fmt.Sprintf("kafka-transactions.sh --bootstrap-server %s abort --topic %s --partition %d --start-offset %d",
		Bootstrap(l.Client), l.Topic, l.Partition, h.FirstOffset)
}

// DescribeCommand returns the command that shows leader, replicas and configuration of the topic.
func (l Log) DescribeCommand() string {
	return fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --describe --topic %s", Bootstrap(l.Client), l.Topic)
}
