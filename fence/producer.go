package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// producer is one initialised transactional client. It is used by one goroutine, but close may be
// called by any. Its errors are *wire.StepErrors.
type producer interface {
	// begin opens a transaction. An error must stop: what follows would be reported as done without
	// having been sent.
	begin() error
	// produce sends ms and waits for the answer to each. Without an error errs is nil, and in is where the
	// records for the progress partition are. At most that many are sent at once, 0: all.
	produce(ctx context.Context, ms []stream.Message, most int) (in span, firstAck time.Duration, errs []error)
	// bind adds the offset to the transaction: the last write before the end.
	bind(ctx context.Context, t Token, o Offset, metadata string) error
	// end commits or aborts.
	end(ctx context.Context, commit bool) error
	// offset returns the stable committed offset.
	offset(ctx context.Context) (wire.GroupOffset, error)
	// progress returns the newest committed progress record at or after from, nil if there is none,
	// and the offset after which the next look may begin.
	progress(ctx context.Context, from int64) (found *Progress, at int64, err error)
	// between returns the newest committed progress record from an offset up to another one, nil if there is
	// none. It waits for no open transaction: one of our own id is not before what we have written.
	between(ctx context.Context, from, to int64) (*Progress, error)
	// fresh reports whether nobody had initialised the id before.
	fresh() bool
	// reusable reports whether a transaction may follow one that was aborted.
	reusable() bool
	close()
}

// span is where the records of a transaction are in the progress partition: the offsets of the first one
// and of the last, which is the progress record.
type span struct{ first, last int64 }

// nowhere is the span of a transaction that was not written.
var nowhere = span{-1, -1}

// opener makes producers: each open is a takeover.
type opener interface {
	open(ctx context.Context) (producer, error)
	// committed returns the committed offset without a takeover.
	committed(ctx context.Context) (wire.GroupOffset, error)
	// throttled says, as the end of a sentence, which broker has throttled the clients since a time; "": none.
	throttled(since time.Time) string
	// rest returns when everything that was closed has come to rest.
	rest()
}

// cluster opens producers on a real cluster.
type cluster struct {
	c    Config
	id   string
	base context.Context // values only: the rule switches
	wg   sync.WaitGroup  // clients that are being closed

	throttle wire.Throttle
}

// txn is a producer on a real cluster.
type txn struct {
	*cluster
	cl    *kgo.Client
	gate  *gate
	epoch int16
	once  sync.Once
	took  map[stream.Partition]bool // partitions that took records; true: the client has noted them
}

// fixed returns the one partition of a topic that is written to, if there is one.
func (c Config) fixed(topic string) (int32, bool) {
	if topic == c.Progress.Topic {
		return c.Progress.Partition, true
	}
	if p := c.Outputs[topic].Partition; p != nil {
		return *p, true
	}
	return 0, false
}

// open makes a client and initialises the id, which ends whatever transaction another client left
// open under it. The client is closed if that fails.
func (k *cluster) open(ctx context.Context) (producer, error) {
	g := newGate(k.base, k.c.Ownership.MayInit)
	opts, err := k.c.Kafka.ClientOpts(g.wrap)
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		kgo.TransactionalID(k.id),
		kgo.TransactionTimeout(k.c.TransactionTimeout),
		kgo.RecordPartitioner(wire.Partitioner{Fixed: k.c.fixed}),
		kgo.ProducerLinger(0),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// The client counts it from the timestamp of a record, which may be that of an old input record.
		kgo.RecordDeliveryTimeout(0),
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 {
			return wire.BatchLimit(k.c.limit(topic))
		}),
		// A call's records go into one transaction, whole: the client must not wait for room that
		// only the end of that transaction would make. A wait for room in bytes would not even end
		// with the network cut, as nothing may cancel it.
		kgo.MaxBufferedRecords(1<<30),
		kgo.MaxBufferedBytes(0),
		kgo.WithHooks(&k.throttle),
		// A raw fetch or metadata request must not be held up by this client's other requests.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, stream.NewError("open writer", fmt.Errorf("%w: %w", stream.ErrConfig, err)).At(k.c.Progress, -1)
	}
	t := &txn{cluster: k, cl: cl, gate: g, took: map[stream.Partition]bool{}}
	if err := t.init(ctx); err != nil {
		t.close()
		return nil, &wire.StepError{Step: wire.StepInit, Err: err}
	}
	g.seal()
	if k.c.Features.Brokers == 0 {
		found, err := wire.LookupFeatures(ctx, cl)
		k.c.Features = Features(found)
		if err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

func (k *cluster) committed(ctx context.Context) (wire.GroupOffset, error) {
	cl, err := k.c.Kafka.Client()
	if err != nil {
		return wire.GroupOffset{}, err
	}
	defer cl.Close()
	return k.fetchOffset(ctx, cl)
}

func (k *cluster) fetchOffset(ctx context.Context, cl *kgo.Client) (wire.GroupOffset, error) {
	fetch := wire.FetchOffset
	if !rule.On(k.base, rule.StableFetch) {
		fetch = wire.FetchUnstableOffset
	}
	off, err := fetch(ctx, cl, k.c.Group, wire.Member{Joined: true}, k.c.Input, k.c.InputTopicID)
	if errors.Is(err, kerr.GroupIDNotFound) { // the group that the ownership is of: nothing is said of its offsets
		err = fmt.Errorf("%w: %w", stream.ErrOwnershipLost, err)
	}
	return off, err
}

func (k *cluster) rest() { k.wg.Wait() }

func (k *cluster) throttled(since time.Time) string { return k.throttle.Since(since) }

func (t *txn) init(ctx context.Context) error {
	type answer struct {
		epoch int16
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan answer, 1)
	t.wg.Go(func() {
		_, epoch, err := t.cl.ProducerID(ctx)
		answered <- answer{epoch, err}
	})
	select {
	case a := <-answered:
		t.epoch = a.epoch
		if err, ok := gateError(a.err); ok {
			return err
		}
		return a.err
	case <-t.gate.refused:
		return t.gate.refusal()
	case <-t.c.Ownership.Draining():
		return stream.NewError("take over", fmt.Errorf("the partition is being taken away: %w", stream.ErrOwnershipLost))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *txn) fresh() bool { return t.epoch == 0 }

func (t *txn) reusable() bool { return wire.Features(t.c.Features).Fenced() }

func (t *txn) begin() error {
	if err := t.cl.BeginTransaction(); err != nil {
		return &wire.StepError{Step: wire.StepBegin, Err: err}
	}
	return nil
}

func (t *txn) record(m stream.Message) *kgo.Record {
	r := &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value, Timestamp: m.Timestamp}
	if r.Topic == "" {
		r.Topic = t.c.Progress.Topic
	}
	r.Partition, _ = t.c.fixed(r.Topic)
	if len(m.Headers) > 0 {
		r.Headers = make([]kgo.RecordHeader, len(m.Headers))
		for i, h := range m.Headers {
			r.Headers[i] = kgo.RecordHeader{Key: h.Key, Value: h.Value}
		}
	}
	return r
}

// produce counts promises: Flush returns before those of records that were refused before they were
// buffered. The records carry no context that ends, because a client cannot take back a record that
// may have been sent; when ctx ends the caller closes the client, which answers every promise.
func (t *txn) produce(ctx context.Context, ms []stream.Message, most int) (span, time.Duration, []error) {
	type promise struct {
		i   int
		r   *kgo.Record
		err error
	}
	began := time.Now()
	var firstAck time.Duration
	promises := make(chan promise, len(ms))
	errs := make([]error, len(ms))
	in, failed := nowhere, false
	var cause error // why the wait was given up
	take := func(n int) bool {
		for range n {
			select {
			case p := <-promises:
				if firstAck == 0 {
					firstAck = time.Since(began)
				}
				if p.err != nil {
					errs[p.i], failed = &wire.StepError{Step: wire.StepProduce, Err: p.err}, true
				} else {
					t.acked(p.r)
				}
				if p.r.Topic == t.c.Progress.Topic && (in.first < 0 || p.r.Offset < in.first) {
					in.first = p.r.Offset
				}
				if p.i == len(ms)-1 {
					in.last = p.r.Offset
				}
			case <-t.gate.refused:
				cause = t.gate.refusal()
				return false
			case <-ctx.Done():
				cause = context.Cause(ctx)
				return false
			}
		}
		return true
	}
	sent := 0
	for i, m := range ms {
		t.cl.Produce(t.base, t.record(m), func(r *kgo.Record, err error) { promises <- promise{i, r, err} })
		if sent++; sent != most && i < len(ms)-1 {
			continue
		}
		if !take(sent) || failed {
			break
		}
		sent = 0
	}
	if cause != nil {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = &wire.StepError{Step: wire.StepProduce, Err: cause}
			}
		}
		return nowhere, firstAck, errs
	}
	if !failed {
		return in, firstAck, nil
	}
	return nowhere, firstAck, errs
}

func (t *txn) bind(ctx context.Context, tok Token, o Offset, metadata string) error {
	id, epoch, err := t.cl.ProducerID(ctx) // from transaction.version 2 on each end raises the epoch
	if held, ok := gateError(err); ok {
		err = held
	}
	if err != nil {
		return &wire.StepError{Step: wire.StepOffset, Err: err}
	}
	b := wire.Binding{
		TransactionalID: t.id, ProducerID: id, ProducerEpoch: epoch, Group: t.c.Group,
		MemberID: tok.MemberID, Generation: tok.Generation, InstanceID: tok.InstanceID,
		Input: t.c.Input, TopicID: t.c.InputTopicID, Next: o.Next, LeaderEpoch: o.LeaderEpoch, Metadata: metadata,
	}
	if !rule.On(t.base, rule.FencedBinding) {
		b.MemberID, b.Generation, b.InstanceID = "", -1, ""
	}
	return wire.BindOffset(ctx, t.cl, b, wire.Features(t.c.Features).AddOffsets())
}

// errNotSent: the client has said that it has committed, and has not asked for it.
var errNotSent = errors.New("the client has ended the transaction without a request to commit it")

// acked notes which partition took a record.
func (t *txn) acked(r *kgo.Record) {
	if p := (stream.Partition{Topic: r.Topic, Partition: r.Partition}); !t.took[p] {
		t.took[p] = false
	}
}

// noteLimit bounds the wait for the client to note the partitions of a topic. It takes microseconds, unless the process
// is held up.
const noteLimit = 10 * time.Second

// noted waits until the client has noted the partitions that took records. It does so after it has sent the first
// records of a topic:
//
//  1. They wait for the metadata of their topic. It comes, and they are sent.
//  2. The goroutine that has brought it is held up before it notes the topic's partitions.
//  3. The records are acknowledged, the offset is bound, and the transaction is to be committed.
//
// A client that ends the transaction then knows nothing of the partition. If it knows of no other that took records,
// it calls the commit done and has not sent it. If it does, it commits, and takes the partition for a part of the next
// transaction too: below transaction.version 2 it does not add it to that one, whose commit leaves its records out.
func (t *txn) noted(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, noteLimit, errors.New("the client does not note the partition"))
	defer cancel()
	defer context.AfterFunc(t.gate.ctx, cancel)() // a client that is closed notes nothing more
	for p, noted := range t.took {
		if noted {
			continue
		}
		if err := wire.AwaitNoted(ctx, t.cl, p); err != nil {
			return err
		}
		t.took[p] = true
	}
	return nil
}

// end waits for the broker's answer until ctx ends or the client is closed; a wait that is cut leaves
// the outcome unknown. So does a commit that the client calls done and has not sent (R5). To the client a
// transaction is empty in which it finds no partition that took a record: it aborts it, or leaves it open, and
// returns no error. So nothing is ended before the client has noted the partitions, and commits are counted.
func (t *txn) end(ctx context.Context, commit bool) error {
	if err := t.noted(ctx); err != nil {
		return &wire.StepError{Step: wire.StepEnd, Err: err}
	}
	sent := t.gate.commits.Load()
	how := kgo.TryAbort
	if commit {
		how = kgo.TryCommit
	}
	answered := make(chan error, 1)
	t.wg.Go(func() { answered <- t.cl.EndTransaction(ctx, how) })
	select {
	case err := <-answered:
		if err == nil && commit && t.gate.commits.Load() == sent {
			err = errNotSent
		}
		if err != nil {
			return &wire.StepError{Step: wire.StepEnd, Err: err}
		}
		return nil
	case <-t.gate.refused:
		return &wire.StepError{Step: wire.StepEnd, Err: t.gate.refusal()}
	case <-ctx.Done():
		return &wire.StepError{Step: wire.StepEnd, Err: context.Cause(ctx)}
	}
}

func (t *txn) offset(ctx context.Context) (wire.GroupOffset, error) {
	return t.fetchOffset(ctx, t.cl)
}

// close stops the client at once, with no abort: by then the id may be another's. The client's own
// shutdown waits for its goroutines, up to a second when the cluster is away; rest waits for it.
func (t *txn) close() {
	t.once.Do(func() {
		t.gate.close()
		t.wg.Go(t.cl.Close)
	})
}

// progress scans the progress partition up to the high watermark. A transaction of a stale owner
// that is still open would hold the scan up: the wait is bounded, and the id is then taken over
// again. Where none is open, only the brokers take their time, and another takeover would not make them
// quicker: they have as long as a transaction. A partition that ends before what was acknowledged is ErrTruncated:
// the topic was made again, or lost records, and the states that are not written again would be lost with it.
func (t *txn) progress(ctx context.Context, from int64) (found *Progress, at int64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, max(unstableFor, t.c.TransactionTimeout), errors.New("the brokers take too long to answer the read-back"))
	defer cancel()
	log := wire.Log{Client: t.cl, Topic: t.c.Progress.Topic, Partition: t.c.Progress.Partition}
	_, end, stable, err := log.Ends(ctx)
	if err != nil {
		return nil, from, err
	}
	if stable < end && t.throttle.Since(time.Now()) == "" { // who waits for a quota waits for no transaction
		ctx, cancel = context.WithTimeoutCause(ctx, unstableFor, errors.New("an open transaction holds up the read-back"))
		defer cancel()
	}
	if end < from { // else what is read there would say that nobody has committed since
		return nil, from, fmt.Errorf("%s ends at %d, and had a progress record at %d: %w", t.c.Progress, end, from-1, stream.ErrTruncated)
	}
	at = from - 1
	_, err = log.Read(ctx, wire.ReadOptions{From: from, To: end, Committed: true}, func(r *kgo.Record) error {
		p, ok, err := progressFrom(wire.Record(r))
		if ok {
			found, at = &p, r.Offset
		}
		return err
	})
	return found, at, err
}

func (t *txn) between(ctx context.Context, from, to int64) (found *Progress, err error) {
	log := wire.Log{Client: t.cl, Topic: t.c.Progress.Topic, Partition: t.c.Progress.Partition}
	_, err = log.View(ctx, wire.ViewOptions{From: from, To: to}, func(e wire.Entry) error {
		if e.Status != wire.StatusCommitted {
			return nil
		}
		p, ok, err := progressFrom(wire.Record(e.Record))
		if ok {
			found = &p
		}
		return err
	})
	return found, err
}
