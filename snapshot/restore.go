package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// DefaultStallTimeout is how long a restore makes no progress before it fails. It is above the wait
// for a transaction with Kafka's default timeout (60 s, and 10 s for the broker to notice) and below
// the patience of an operator.
const DefaultStallTimeout = 3 * time.Minute

// RestoreConfig says what Restore reads, and whom it tells.
type RestoreConfig struct {
	// Client reads; it may be shared by any number of restores and must not be a group member.
	Client    *kgo.Client
	Topic     string
	TopicID   [16]byte // zero: the topic is taken as it is found by name
	Partition int32

	// TransactionalID is the id that this partition's owner writes under. "": no transaction is ours.
	TransactionalID string
	// Retake is called when the read waits for a transaction that is open on TransactionalID: after
	// 2 s, then after 4 s more and so on, doubling, until the position advances. It takes the id over,
	// which aborts that transaction; an error of it ends the restore and comes back as it is. It is
	// called from another goroutine than Each, and Restore does not return while it runs. May be nil.
	Retake func(context.Context) error

	// StallTimeout ends a restore whose position does not advance; 0: DefaultStallTimeout, negative:
	// only the context ends it.
	StallTimeout time.Duration

	// Each is handed every record, in offset order; records without a key are left out, since they
	// are nobody's snapshot. It may keep the record. An error of it ends the restore and comes back
	// as it is.
	Each func(stream.Record) error

	Progress func(stream.Restoring) // at most once a second; may be nil
	Stalled  func(stream.Stalled)   // each 5 s without progress, and when the restore fails by it; may be nil
	Logger   *slog.Logger           // nil: nothing is logged

	source source // the log, where a test puts another in its place
}

// Result says what a restore has read.
type Result struct {
	Start    int64 // the log's first offset when the restore began
	Target   int64 // the high watermark captured when the restore began
	Position int64 // next offset to be read: at or past Target unless the restore failed
	Records  int64
	Keyless  int64 // records without a key, which were left out
	Bytes    int64 // of keys, values and headers
	Took     time.Duration
}

// source is what a restore needs of a wire.Log.
type source interface {
	At() stream.Partition
	Ends(ctx context.Context) (start, highWatermark, lastStable int64, err error)
	Read(ctx context.Context, o wire.ReadOptions, each func(*kgo.Record) error) (int64, error)
	OpenOn(ctx context.Context, transactionalID string) (bool, error)
	Holders(ctx context.Context) ([]wire.Holder, error)
	AbortCommand(h wire.Holder) string
	DescribeCommand() string
}

// Restore is what a flow restores by: it diagnoses stalls and tells progress. For the states of a loop of
// one's own, fence.Restore is simpler.
//
// Restore hands all committed records of the partition to c.Each, up to the high watermark captured
// at the call.
//
// The bound is the high watermark, because an open transaction hides the committed records above its
// first offset: a read that ends at the last stable offset would miss them without a word. The read
// is read_committed, so it waits for that transaction to end. A transaction on c.TransactionalID is
// ended by c.Retake; others are waited for.
//
// Restore never waits without a bound: without progress for c.StallTimeout it fails with
// stream.ErrRestoreStalled, whose message has the cause and whose hint has the next step; the error is
// stream.ErrTruncated too if the log became shorter. Other errors are stream.ErrTopic,
// stream.ErrNotAuthorized, stream.ErrNotAuthenticated, the cause of ctx, and errors of Each and
// Retake. It is safe to restore several partitions at once. An incomplete c is stream.ErrConfig.
//
// A flow restores with it. Under a consumer loop of your own that needs no bound and no diagnosis,
// fence.Restore is plainer.
func Restore(ctx context.Context, c RestoreConfig) (Result, error) {
	if c.Each == nil || c.source == nil && (c.Client == nil || c.Topic == "" || c.Partition < 0) {
		return Result{}, stream.NewError("restore", fmt.Errorf("%w: RestoreConfig needs Client, Topic, Partition and Each", stream.ErrConfig))
	}
	if c.source == nil {
		c.source = wire.Log{Client: c.Client, Topic: c.Topic, TopicID: c.TopicID, Partition: c.Partition}
	}
	if c.StallTimeout == 0 {
		c.StallTimeout = DefaultStallTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	at := c.source.At()
	c.Logger = c.Logger.With("topic", at.Topic, "partition", at.Partition)
	r := &restore{RestoreConfig: c, at: at, began: time.Now()}
	r.advancedAt = r.began
	err := r.run(ctx)
	res := r.result()
	if err == nil {
		c.Logger.Info("restore complete", "offset", res.Position, "target", res.Target,
			"records", res.Records, "bytes", res.Bytes, "took", res.Took)
	}
	return res, err
}

// restore is one call of Restore.
type restore struct {
	RestoreConfig
	at            stream.Partition
	began         time.Time
	start, target int64
	lastLog       time.Time // of a progress line; only the reading goroutine uses it
	lastHook      time.Time // of a call of Progress; the same

	mu         sync.Mutex
	position   int64
	advancedAt time.Time // when the position last advanced
	handing    bool      // Each runs: the read waits for it and not for the log
	retried    error     // what the read last retried, nil after it advanced
	records    int64
	keyless    int64
	bytes      int64
}

func (r *restore) result() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Result{Start: r.start, Target: r.target, Position: r.position, Records: r.records,
		Keyless: r.keyless, Bytes: r.bytes, Took: time.Since(r.began)}
}

func (r *restore) run(ctx context.Context) error {
	if err := r.capture(ctx); err != nil {
		return err
	}
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := make(chan error, 1)
	go func() {
		err := r.watch(reading)
		stop(err) // ends the read; it has ended before if err is nil
		watched <- err
	}()
	_, err := r.source.Read(reading, wire.ReadOptions{
		From: r.start, To: r.target, Committed: true,
		OnPosition: func(position int64) { r.advance(position); r.tell() },
		OnRetry:    r.retry,
	}, r.each)
	stop(nil)
	if failed := <-watched; failed != nil && err != nil {
		return failed // the read ended because the watch did
	}
	if errors.Is(err, stream.ErrTruncated) {
		return r.truncated(err)
	}
	return err
}

// capture reads the log's ends, fixes the target and says whether the read will have to wait.
func (r *restore) capture(ctx context.Context) error {
	asking, cancel := ctx, context.CancelFunc(func() {})
	if r.StallTimeout > 0 {
		asking, cancel = context.WithTimeout(ctx, r.StallTimeout)
	}
	defer cancel()
	start, highWatermark, lastStable, err := r.source.Ends(asking)
	if err != nil {
		if ctx.Err() == nil && asking.Err() != nil {
			return r.noAnswer(err)
		}
		return err
	}
	r.start, r.target = start, highWatermark
	if !rule.On(ctx, rule.RestoreBound) {
		r.target = lastStable
	}
	r.mu.Lock()
	r.position = start
	r.advancedAt = time.Now()
	r.mu.Unlock()
	r.Logger.Info("restore started", "offset", start, "target", r.target)
	if r.target > lastStable {
		r.Logger.Warn("restore waits for an open transaction: committed records above it cannot be read before it ends. "+
			"It ends by itself, at the latest when its transaction timeout and the broker's check (10 s by default) have passed",
			"last_stable_offset", lastStable, "target", r.target)
	}
	return nil
}

func (r *restore) each(rec *kgo.Record) error {
	if rec.Key == nil {
		return r.keylessAt(rec.Offset)
	}
	size := int64(len(rec.Key) + len(rec.Value))
	for i := range rec.Headers {
		size += int64(len(rec.Headers[i].Key) + len(rec.Headers[i].Value))
	}
	r.mu.Lock()
	r.handing = true
	r.mu.Unlock()
	err := r.Each(wire.Record(rec))
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handing = false
	if err == nil {
		r.records++
		r.bytes += size
		r.position, r.advancedAt, r.retried = rec.Offset+1, now, nil
	}
	return err
}

func (r *restore) keylessAt(offset int64) error {
	r.mu.Lock()
	r.keyless++
	first := r.keyless == 1
	r.mu.Unlock()
	if first {
		r.Logger.Warn("a record without a key is in the snapshot topic and left out: only the flow may write there; "+
			"further ones are counted, not logged", "offset", offset)
	}
	r.advance(offset + 1)
	return nil
}

func (r *restore) advance(position int64) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if position > r.position {
		r.position, r.advancedAt, r.retried = position, now, nil
	}
}

// retry notes what keeps the read from an answer, for the diagnosis.
func (r *restore) retry(err error) {
	r.mu.Lock()
	r.retried = err
	r.mu.Unlock()
	r.Logger.Debug("restore asks again", "error", err)
}

const (
	progressLogEvery  = 5 * time.Second
	progressHookEvery = time.Second
)

// tell reports progress to the hook and the log, as often as they want it.
func (r *restore) tell() {
	now := time.Now()
	hook := r.Progress != nil && now.Sub(r.lastHook) >= progressHookEvery
	line := now.Sub(r.lastLog) >= progressLogEvery && now.Sub(r.began) >= progressLogEvery
	if !hook && !line {
		return
	}
	p := r.progress()
	if hook {
		r.lastHook = now
		r.Progress(p)
	}
	if line {
		r.lastLog = now
		r.Logger.Info("restore goes on", "offset", p.Position, "target", p.Target, "records", p.Records,
			"bytes", p.Bytes, "bytes_per_second", int64(p.Rate), "eta", p.ETA)
	}
}

// progress estimates by offsets, because the bytes that are still to come are not known.
func (r *restore) progress() stream.Restoring {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := stream.Restoring{Partition: r.at, Position: r.position, Target: r.target, Records: r.records, Bytes: r.bytes}
	took := time.Since(r.began)
	if took > 0 {
		p.Rate = float64(r.bytes) / took.Seconds()
	}
	if done := r.position - r.start; done > 0 && r.target > r.position {
		p.ETA = time.Duration(float64(took) * float64(r.target-r.position) / float64(done)).Round(time.Second)
	}
	return p
}
