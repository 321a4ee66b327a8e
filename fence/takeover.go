package fence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	// unstableFor is how long a stable offset fetch may wait for an open transaction before the id is
	// taken over again: a stale owner may have opened one after our takeover (R12).
	unstableFor = 2 * time.Second
	// unstableLimit is how long the takeovers of one Open go on while the offset stays unstable. Each of
	// them has ended what was open on the id, so that what is left is no transaction that ends by itself:
	// a sole broker that was killed before it wrote the markers of a commit has left one hanging on the
	// offsets' partition.
	unstableLimit = 3 * time.Minute
	// strangeIDLimit is how long a topic id may be unknown to the coordinator. One that was made a moment ago
	// is, until its broker has heard of it; one that was made again stays so.
	strangeIDLimit = 30 * time.Second
	// lookAgain is the pause between two looks. What a transaction committed becomes readable some
	// milliseconds after the client was told.
	lookAgain = 5 * time.Millisecond
)

// errNoAnswer ends one attempt of a takeover. The attempts together are bounded, but the client asks again by
// itself, and without end, while the coordinator answers CONCURRENT_TRANSACTIONS: an attempt has to end too.
var errNoAnswer = errors.New("the coordinator does not initialise the id: it is away, or goes on answering that a transaction of the id is being completed")

// known is the last commit that this ownership knows of: the base of a read-back.
type known struct {
	next     int64
	offset   witness // named by the committed offset's metadata
	progress witness // named by the newest progress record
	from     int64   // offset in the progress partition at which a read-back begins
	read     bool    // what lies before from has been read
}

// Open takes the partition over and returns a writer for it: it initialises the partition's
// transactional id, which aborts what the last owner left open, and then fetches the stable
// committed offset. Call Adopt after the restore, and before the first write.
//
// It retries what passes by itself until ctx ends or the ownership does. It returns ErrConfig,
// ErrOwnershipLost, ErrNotAuthorized with the ACL that is missing, ErrRestoreStalled if the committed
// offset stays unstable for 3 minutes, or the cause of ctx.
func Open(ctx context.Context, c Config) (*Writer, Committed, error) {
	c, err := c.resolved()
	if err != nil {
		return nil, Committed{}, err
	}
	if c.InputTopicID == ([16]byte{}) {
		if c.InputTopicID, err = lookupTopicID(ctx, c); err != nil {
			return nil, Committed{}, err
		}
	}
	id := TransactionalID(c.Group, c.Progress.Topic, c.Progress.Partition)
	return open(ctx, c, id, &cluster{c: c, id: id, base: context.WithoutCancel(ctx)})
}

func lookupTopicID(ctx context.Context, c Config) ([16]byte, error) {
	cl, err := c.Kafka.Client()
	if err != nil {
		return [16]byte{}, err
	}
	defer cl.Close()
	return wire.TopicID(ctx, cl, c.Input.Topic)
}

func open(ctx context.Context, c Config, id string, o opener) (*Writer, Committed, error) {
	w := &Writer{
		c: c, id: id, own: c.Ownership, opener: o, base: context.WithoutCancel(ctx),
		limit: 2 * max(c.TransactionTimeout, c.Ownership.session.rebalanceTimeout),
		turn:  make(chan struct{}, 1), wake: make(chan struct{}, 1), done: make(chan struct{}),
		turnState: turnState{pacer: newPacer()},
	}
	w.ctx, w.cancel = context.WithCancelCause(w.base)
	found, err := w.first(ctx)
	if err != nil {
		w.cancel(err)
		w.dispose()
		o.rest()
		return nil, Committed{}, err
	}
	w.turn <- struct{}{}
	go w.run()
	go w.watch()
	return w, found, nil
}

// watch cuts everything when the ownership is gone. It ends with the writer.
func (w *Writer) watch() {
	select {
	case <-w.own.Gone():
		cause := w.own.Cause()
		if cause == nil || !errors.Is(cause, stream.ErrOwnershipLost) {
			cause = errors.Join(stream.ErrOwnershipLost, cause)
		}
		w.cancel(stream.NewError("write", cause).At(w.c.Input, -1))
	case <-w.ctx.Done():
	}
}

// first is the takeover at the start of an ownership.
func (w *Writer) first(ctx context.Context) (Committed, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(goneContext{w.own.Gone()}, func() { cancel(w.own.Cause()) })
	defer stop()
	stopClosed := context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })
	defer stopClosed()
	began := time.Now()
	var same sameFault
	for attempt := 0; ; attempt++ {
		trying, stopTrying := context.WithTimeoutCause(ctx, max(w.limit, unstableLimit), errNoAnswer)
		found, err := w.firstOnce(trying)
		stopTrying()
		if err == nil {
			return found, nil
		}
		w.dispose()
		if err := w.lasting(err, time.Since(began), same.since(err)); err != nil {
			return Committed{}, err
		}
		c, hint := classify(err)
		if c == classGone || w.own.State() != Held {
			e := stream.NewError("take over", fmt.Errorf("%w: %w", stream.ErrOwnershipLost, err)).At(w.c.Input, -1)
			return Committed{}, e
		}
		if c != classTransient && c != classFence && c != classAbort {
			e := stream.NewError("take over", errors.Join(sentinelFor(c, err), err)).At(w.c.Input, -1).Hinted("%s", hint)
			e.Group, e.TransactionalID = w.c.Group, w.id
			return Committed{}, e
		}
		w.c.Logger.Warn("takeover failed and is tried again", "attempt", attempt+1, "error", err)
		select {
		case <-time.After(min(pauseMin<<min(attempt, 6), pauseMax)):
		case <-ctx.Done():
			e := stream.NewError("take over", errors.Join(context.Cause(ctx), err)).At(w.c.Input, -1)
			return Committed{}, e
		}
	}
}

// sameFault counts for how long a takeover has met nothing but one of the faults that have a limit of
// their own. The time of other faults before it does not count:
//
//  1. The coordinator is away for three minutes, in a restart of the brokers one by one.
//  2. It comes back, and what it commits last is not readable yet: the offset is unstable for a moment.
//  3. Counted from the beginning, that would be a transaction that hangs for three minutes.
type sameFault struct {
	fault error // zero: none of them
	began time.Time
}

func (s *sameFault) since(err error) time.Duration {
	var fault error
	switch {
	case errors.Is(err, kerr.UnstableOffsetCommit):
		fault = kerr.UnstableOffsetCommit
	case isStrangeID(err):
		fault = kerr.UnknownTopicID
	}
	if fault != s.fault {
		s.fault, s.began = fault, time.Now()
	}
	return time.Since(s.began)
}

func isStrangeID(err error) bool {
	return errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID)
}

// lasting is the error of a takeover whose fault has lasted for so long that it will not pass by itself;
// nil while it may. tried is the time of all attempts, same that since this fault is met.
func (w *Writer) lasting(err error, tried, same time.Duration) error {
	switch {
	case errors.Is(err, kerr.UnstableOffsetCommit) && same >= unstableLimit:
		return w.hanging(err)
	case isStrangeID(err) && same >= strangeIDLimit:
		e := stream.NewError("take over", fmt.Errorf("the input topic is not the one that the component started with: %w: %w", stream.ErrInputChanged, err)).
			At(w.c.Input, -1).Hinted("it was deleted and made again: start again to see what the offsets and the progress say of it")
		e.Group, e.TransactionalID = w.c.Group, w.id
		return e
	case tried >= w.limit && !errors.Is(err, kerr.UnstableOffsetCommit) && !isStrangeID(err):
		if c, _ := classify(err); c != classTransient && c != classFence && c != classAbort {
			return nil // it has an error of its own
		}
		// A throttle is told, and is no reason of its own: what a takeover asks for is small, and is answered before
		// the quota is kept. What has kept it from succeeding may pass.
		cause := fmt.Errorf("no success in %v: %w: %w", w.limit, stream.ErrUnreachable, err)
		if told := w.opener.throttled(time.Now().Add(-tried)); told != "" {
			cause = fmt.Errorf("%s: %w", told, cause)
		}
		e := stream.NewError("take over", cause).At(w.c.Input, -1)
		e.Group, e.TransactionalID = w.c.Group, w.id
		return e.Hinted("look at the brokers, and at the coordinator of the transactional id: nothing was written")
	}
	return nil
}

// hanging is the error of an offset that stays unstable whatever is taken over.
func (w *Writer) hanging(err error) error {
	e := stream.NewError("fetch offset", fmt.Errorf("the committed offset is held back by a transaction that does not end, for %v and over takeovers of its id: %w: %w",
		unstableLimit, stream.ErrRestoreStalled, err)).At(w.c.Input, -1)
	e.Group, e.TransactionalID = w.c.Group, w.id
	return e.Hinted("a transaction hangs on the group's partition of __consumer_offsets: find it with kafka-transactions.sh --bootstrap-server %s "+
		"find-hanging --topic __consumer_offsets, end it with kafka-transactions.sh abort, and start again", strings.Join(w.c.Kafka.Brokers, ","))
}

func (w *Writer) firstOnce(ctx context.Context) (Committed, error) {
	var off wire.GroupOffset
	var tookOver bool
	var err error
	if rule.On(w.base, rule.Takeover) {
		if w.producer, err = w.opener.open(ctx); err != nil {
			return Committed{}, err
		}
		tookOver = !w.producer.fresh()
		off, err = w.stableOffset(ctx)
	} else {
		off, err = w.opener.committed(ctx)
	}
	if err != nil {
		return Committed{}, err
	}
	return w.found(off, tookOver), nil
}

// found makes a fetched offset the base of what follows.
func (w *Writer) found(off wire.GroupOffset, tookOver bool) Committed {
	named, _ := wire.ParseWitness(off.Metadata)
	wit := witness{named.Nonce, named.Sequence}
	w.known = known{next: off.Next, offset: wit, progress: wit}
	if wit.nonce == w.own.nonce {
		w.sequence = wit.sequence // a second writer under one ownership counts on
	}
	w.mu.Lock()
	w.last = Offset{off.Next, off.LeaderEpoch}
	w.mu.Unlock()
	return Committed{
		Next: off.Next, LeaderEpoch: off.LeaderEpoch, Nonce: wit.nonce, Sequence: wit.sequence, Kind: named.Kind, TookOver: tookOver,
	}
}

// stableOffset fetches the committed offset and waits for open transactions for up to unstableFor.
func (w *Writer) stableOffset(ctx context.Context) (wire.GroupOffset, error) {
	until := time.NewTimer(unstableFor)
	defer until.Stop()
	for {
		off, err := w.producer.offset(ctx)
		if !errors.Is(err, kerr.UnstableOffsetCommit) {
			return off, err
		}
		select {
		case <-time.After(lookAgain):
		case <-until.C:
			return off, err
		case <-ctx.Done():
			return off, errors.Join(context.Cause(ctx), err)
		}
	}
}

// Adopt tells the writer the newest progress record that the restore found, and its offset: the base
// of every read-back. Call it before the first write; see AdoptNone for a restore that found none.
func (w *Writer) Adopt(p Progress, at int64) {
	<-w.turn
	defer func() { w.turn <- struct{}{} }()
	w.known.progress, w.known.from, w.known.read = witness{p.Nonce, p.Sequence}, at+1, true
	w.c.Incarnation = max(w.c.Incarnation, p.Incarnation)
	if p.Nonce == w.own.nonce {
		w.sequence = max(w.sequence, p.Sequence)
	}
}

// AdoptNone tells the writer that the restore found no progress record below end, the offset behind the last
// record that it read, 0 if it read none. Call it in place of Adopt: the first write then makes sure that there
// is none behind it either. incarnation is the highest of the states that it found, 0 without any: progress records
// of a lower one would say that these states are nobody's.
func (w *Writer) AdoptNone(end int64, incarnation uint32) {
	<-w.turn
	defer func() { w.turn <- struct{}{} }()
	w.known.from, w.known.read = end, true
	w.c.Incarnation = max(w.c.Incarnation, incarnation)
}

// Retake takes the id over again, for a restore that waits for an open transaction on our own id: a
// stale owner may have opened one after the takeover (R12). It is refused after the first commit,
// and asks the group first (R4). It returns what Open does, and ErrOwnershipLost if the committed
// offset is another than Open's: restore again.
func (w *Writer) Retake(ctx context.Context) error {
	select {
	case <-w.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { w.turn <- struct{}{} }()
	if err := w.ended(); err != nil {
		return err
	}
	ctx, cancel := w.whileOpen(ctx)
	defer cancel()
	w.mu.Lock()
	commits := w.commits
	w.mu.Unlock()
	if commits > 0 {
		return stream.NewError("take over", fmt.Errorf("%w: the first commit has been made", stream.ErrConfig)).At(w.c.Input, -1)
	}
	before := w.known
	w.dispose()
	if _, err := w.first(ctx); err != nil {
		return err
	}
	if w.known.next != before.next || w.known.offset != before.offset {
		b := &batch{next: w.last}
		return w.lose(b, errAnotherCommitted)
	}
	w.known.progress, w.known.from, w.known.read = before.progress, before.from, before.read
	return nil
}

// ended returns why no call is taken any more, nil while calls are taken.
func (w *Writer) ended() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.final == nil && w.closed {
		return stream.NewError("take over", stream.ErrClosed).At(w.c.Input, -1)
	}
	return w.final
}

// whileOpen returns a context that ends with ctx, and with the writer when Close is out of patience.
func (w *Writer) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// goneContext makes a context of a channel, for context.AfterFunc.
type goneContext struct{ done <-chan struct{} }

func (goneContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c goneContext) Done() <-chan struct{}     { return c.done }
func (goneContext) Value(any) any               { return nil }
func (c goneContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}
