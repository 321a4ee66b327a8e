package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/intake"
	"github.com/holdfast-go/holdfast/stream"
)

// ReadOptions says what Read reads.
type ReadOptions struct {
	From int64 // first offset wanted; below the log's start the read begins at the log's start
	To   int64 // the read ends when its position is here; records at and past it are left out

	// MaxBytes bounds one fetch, compressed as it is in the log; 0: 4 MiB. Up to three fetches are in
	// memory at once. A single batch that is larger comes whole.
	MaxBytes int32

	// Committed reads under read_committed: records of aborted transactions are left out, and the
	// read waits below the first open transaction. Otherwise everything up to the high watermark
	// comes, without control records.
	Committed bool

	// Refused hands over what stands in for records that were too large to be read; see intake.Refused.
	// Otherwise the read ends there, with stream.ErrTooLarge.
	Refused bool

	// OnPosition is told each advance of the position, after the records before it were handed out.
	// It is called from the goroutine that called Read; nil: nobody is told.
	OnPosition func(position int64)

	// OnRetry is told each error that the read is about to retry, a *Throttled too, from another goroutine; nil:
	// nobody is told.
	OnRetry func(err error)

	// raw keeps control records, and under read_committed the records of aborted transactions: the
	// page's list says which ones they are.
	raw bool
}

const (
	defaultFetchBytes = 4 << 20

	// idlePause is waited between fetches that bring nothing. The wait is on our side and not the
	// broker's, because all fetches to one broker share one connection, and a request that the
	// broker holds back holds back every partition behind it.
	idlePause = 50 * time.Millisecond
)

// page is what one fetch brought.
type page struct {
	records       []*kgo.Record
	aborted       []kmsg.FetchResponseTopicPartitionAbortedTransaction // that touch the page, under read_committed
	next          int64
	highWatermark int64
	logStart      int64
	err           error
	opened        *intake.Opened // what the records are of; its holder releases it
}

// Read hands the partition's records to each, in offset order, until its position has reached To.
// It is judged by position and not by the last record seen, so it ends on empty logs, on tails of
// control records or aborted records, and over offsets that compaction removed. Records may be kept
// by each; an error of each ends the read and comes back as it is.
//
// A leader that moves or does not answer is waited for as long as ctx lasts. The errors that come
// back are stream.ErrTruncated when the log ends before the position, stream.ErrTopic when the topic
// is gone or another one, stream.ErrNotAuthorized, stream.ErrNotAuthenticated, the cause of ctx, and
// errors of records that cannot be decoded. The returned position is the next offset to be read, at
// most To, and valid beside an error too.
func (l Log) Read(ctx context.Context, o ReadOptions, each func(*kgo.Record) error) (position int64, err error) {
	position = o.From
	if position >= o.To {
		return position, nil
	}
	err = l.eachPage(ctx, o, func(p page) error {
		for _, r := range p.records {
			if r.Offset >= o.To { // written since To was captured
				break
			}
			if refusal, ok := intake.Refused(r); ok && !o.Refused {
				return l.tooLarge(refusal)
			}
			if err := each(r); err != nil {
				return err
			}
			position = r.Offset + 1
		}
		position = min(p.next, o.To)
		if o.OnPosition != nil {
			o.OnPosition(position)
		}
		return nil
	})
	if err != nil || position >= o.To {
		return position, err
	}
	return position, context.Cause(ctx)
}

// eachPage hands over the pages from o.From to o.To, each while the one after it is fetched. When ctx
// ends it returns nil early.
func (l Log) eachPage(ctx context.Context, o ReadOptions, each func(page) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	pages := make(chan page)
	go func() {
		defer close(pages)
		l.fetchAhead(ctx, o, pages)
	}()
	defer func() {
		cancel(context.Canceled)
		for p := range pages { // the fetching goroutine has ended when the channel is closed
			p.opened.Release()
		}
	}()
	for p := range pages {
		if p.err != nil {
			return p.err
		}
		err := each(p)
		p.opened.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchAhead sends the pages from o.From to o.To. A page waits in the send while the one before it is
// handled, which is the one fetch ahead that a fast reader gains from.
func (l Log) fetchAhead(ctx context.Context, o ReadOptions, pages chan<- page) {
	f := fetcher{log: l, opts: o, leader: leader{broker: -1}, budget: budgetOf(l.Client)}
	for position := o.From; position < o.To; {
		p := f.page(ctx, position)
		if p.err == nil && p.next == position {
			p.opened.Release()
			if !sleep(ctx, idlePause) {
				return
			}
			continue
		}
		select {
		case pages <- p:
		case <-ctx.Done():
			p.opened.Release()
			return
		}
		if p.err != nil {
			return
		}
		position = p.next
	}
}

// budgetOf returns the client's budget, or the one that all clients without any share.
func budgetOf(cl *kgo.Client) *intake.Budget {
	if b := intake.Of(cl); b != nil {
		return b
	}
	return unbudgeted()
}

var unbudgeted = sync.OnceValue(func() *intake.Budget { return intake.New(0) })

// tooLarge is the error of a read that has come to something that was not let in.
func (l Log) tooLarge(r intake.Refusal) error {
	return stream.NewError("fetch", fmt.Errorf("%w: %s", stream.ErrTooLarge, r)).At(l.At(), r.First).
		Hinted("raise FetchBudget, of which one batch may take a quarter, if it is meant, and find its writer if not; "+
			"look at it with kafka-dump-log.sh --deep-iteration on the leader, or delete the records up to offset %d with kafka-delete-records.sh", r.Offset)
}

type fetcher struct {
	log        Log
	opts       ReadOptions
	leader     leader
	budget     *intake.Budget
	outOfRange int // answers in a row that the position is outside the log
}

// rangePatience is how often in a row a log has to end before the position before that is called
// truncation: between two leaders, one that was just deposed can answer from a shorter log.
const rangePatience = 3

// page fetches once from position, however many attempts that takes.
func (f *fetcher) page(ctx context.Context, position int64) page {
	var p page
	err := f.log.retry(ctx, "fetch", &f.leader, f.opts.OnRetry, func(on leader) (err error) {
		p, err = f.fetch(ctx, on, position)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			p, err = f.placed(ctx, position)
		}
		return err
	})
	if err != nil {
		return page{err: err}
	}
	f.outOfRange = 0
	return p
}

func (f *fetcher) fetch(ctx context.Context, on leader, position int64) (page, error) {
	l, maxBytes := f.log, f.opts.MaxBytes
	if maxBytes <= 0 {
		maxBytes = defaultFetchBytes
	}
	isolation := kgo.ReadUncommitted()
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MinBytes, req.MaxBytes, req.SessionEpoch = -1, 1, maxBytes, -1
	if f.opts.Committed {
		req.IsolationLevel = 1
		if !f.opts.raw {
			isolation = kgo.ReadCommitted()
		}
	}
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = l.Topic, on.topicID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = l.Partition, position, maxBytes, on.epoch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, l.Client.Broker(int(on.broker)))
	if err != nil {
		return page{}, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return page{}, err
	}
	if len(resp.Topics) == 0 && resp.ThrottleMillis > 0 {
		return page{}, &Throttled{For: time.Duration(resp.ThrottleMillis) * time.Millisecond}
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return page{}, errors.New("the broker answered another number of partitions than was asked")
	}
	answer := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return page{}, err
	}
	opened, err := f.budget.Open(ctx, answer.RecordBatches)
	if err != nil {
		return page{}, err
	}
	answer.RecordBatches = opened.Batches
	part, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: position, IsolationLevel: isolation, Topic: l.Topic, Partition: l.Partition,
		KeepControlRecords: f.opts.raw,
	}, answer, decompressor(l.Client), nil)
	switch n := len(part.Records); {
	case part.Err == nil:
	case n > 0: // the next fetch begins at the batch at fault, whatever the client would go on with
		next = part.Records[n-1].Offset + 1
	default:
		opened.Release()
		if err := Undecodable(l.At(), position, part.Err); err != nil {
			return page{}, err
		}
		return page{}, stream.NewError("fetch", part.Err).At(l.At(), position)
	}
	return page{records: part.Records, aborted: answer.AbortedTransactions, next: max(next, position), highWatermark: answer.HighWatermark, logStart: answer.LogStartOffset, opened: opened}, nil
}

// placed finds out on which side of the log a position is that the broker called out of range. Below
// the start the read goes on at the start; above the end records were lost.
func (f *fetcher) placed(ctx context.Context, position int64) (page, error) {
	start, end, _, err := f.log.Ends(ctx)
	if err != nil {
		return page{}, err
	}
	if position < start {
		return page{next: start}, nil
	}
	f.outOfRange++
	if position > end && f.outOfRange >= rangePatience {
		return page{}, f.log.truncated("fetch", position, end)
	}
	return page{}, kerr.OffsetOutOfRange
}

func (l Log) truncated(op string, position, end int64) error {
	return stream.NewError(op, fmt.Errorf("%w: it ends at %d, before offset %d that was already reached",
		stream.ErrTruncated, end, position)).At(l.At(), position)
}
