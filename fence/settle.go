package fence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	// maxFences is the number of producer fences in a row, with no commit between, after which the id
	// counts as taken (R8).
	maxFences = 5
	pauseMin  = 20 * time.Millisecond
	pauseMax  = time.Second
)

var errLimit = errors.New("the time for one transaction with all its attempts ran out")

// settle brings b to its outcome and tells every waiter. It returns in any case: the attempts
// together are bounded, and the end of the ownership cuts each of them.
func (w *Writer) settle(b *batch) {
	ctx, cancel := context.WithTimeoutCause(w.ctx, w.limit, errLimit)
	defer cancel()
	defer w.landed()
	for len(b.waiters) > 0 {
		b.attempts++
		at, err := w.attempt(ctx, b)
		if err == nil {
			w.committed(b, at)
			return
		}
		if err := w.react(ctx, b, err); err != nil {
			w.failed(b, err)
			return
		}
	}
}

func (w *Writer) landed() {
	w.mu.Lock()
	w.flying = nil
	w.mu.Unlock()
}

// committed notes that b is known to be committed, with its progress record at offset at, -1 if that
// is not known.
func (w *Writer) committed(b *batch, at int64) {
	if b.next.Next < w.known.next && !w.rewinds {
		panic(fmt.Sprintf("fence: the committed offset of %s would fall from %d to %d", w.c.Input, w.known.next, b.next.Next))
	}
	w.rewinds, w.absent = false, time.Time{}
	w.sequence = b.witness.sequence
	w.known.next, w.known.offset, w.known.progress = b.next.Next, b.witness, b.witness
	if at >= 0 {
		w.known.from, w.known.read = at+1, true
	}
	w.fences = 0
	w.pace.Wrote(b.bytes, time.Since(b.begun), w.c.TransactionTimeout, w.c.MaxBytes)
	w.mu.Lock()
	w.last = b.next
	w.commits++
	w.mu.Unlock()
	event := stream.Committed{
		Partition: w.c.Input, Next: b.next.Next, Took: time.Since(b.began), ReadBack: b.readBack,
	}
	b.count(&event)
	for _, h := range w.c.Hooks {
		if h.Committed != nil {
			h.Committed(event)
		}
	}
	b.answer(nil) // after the hooks, so that whoever waited finds them called
}

// produceError is the answer to the records of one transaction, nil where there was no error.
type produceError struct{ errs []error }

func (e *produceError) Error() string { return e.Unwrap().Error() }

// Unwrap returns the error that decides: one that is not about a record, if there is any.
func (e *produceError) Unwrap() error {
	var first error
	for _, err := range e.errs {
		if err == nil {
			continue
		}
		if c, _ := classify(err); c != classRecord {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// culprits leaves out the records that the broker did not look at because of another one: they have no
// fault, and would hide which has.
func culprits(errs []error) []error {
	var own []error
	for i, err := range errs {
		if err != nil && !errors.Is(err, kerr.OperationNotAttempted) {
			if own == nil {
				own = make([]error, len(errs))
			}
			own[i] = err
		}
	}
	if own == nil {
		return errs // nobody knows why
	}
	return own
}

// attempt runs one transaction from begin to end. nil: it is committed, with its progress record at
// offset at. The order is R1's and R2's: every promise, then the token, then the offset, then the end.
func (w *Writer) attempt(ctx context.Context, b *batch) (at int64, err error) {
	if w.producer == nil {
		done, err := w.retake(ctx, b)
		if done || err != nil {
			return -1, err
		}
	}
	if b.ranOut != nil && !b.doubt {
		return -1, errRanOut{b.ranOut}
	}
	p := w.producer
	if b.token, err = w.own.Token(w.base); err != nil { // an early out; what counts is read below
		return -1, err
	}
	ms, err := w.effects(b)
	if err != nil {
		return -1, err
	}
	w.pacer.wait(ctx)
	idle := time.Since(w.pacer.ended)
	b.begun, b.wrote = time.Now(), time.Time{}
	if err := p.begin(); err != nil {
		return -1, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, w.c.TransactionTimeout, errLimit)
	defer cancel()
	in, ack, errs := p.produce(bounded, ms, b.most)
	if errs != nil {
		return -1, &produceError{culprits(errs)}
	}
	b.wrote = time.Now()
	if err := w.sameLog(in); err != nil {
		return -1, err
	}
	if err := w.noneBetween(bounded, b, p, in); err != nil {
		return -1, err
	}
	w.pacer.saw(idle, ack)
	if b.token, err = w.own.Token(w.base); err != nil {
		return -1, err
	}
	if err := p.bind(bounded, b.token, b.next, b.witness.metadata(w.c.Kind)); err != nil {
		return -1, err
	}
	// From here on nothing but the end of the ownership, or the broker's silence, cuts the wait.
	ending, cancelEnd := context.WithTimeoutCause(w.ctx, w.c.TransactionTimeout, errLimit)
	defer cancelEnd()
	err = p.end(ending, true)
	w.pacer.end()
	return in.last, err
}

// sameLog makes sure that what was written came behind what this owner knows to be there (R21). A log
// that takes it at a lower offset was made again, or has lost its tail. Memory has what was lost, and only
// the keys that come again would be written again:
//
//  1. The keys a and b are committed. An unclean election loses the record of b.
//  2. The key a is written, and with it a progress record that agrees with the offset.
//  3. The next owner restores a, and b as it was before, or not at all. Nothing tells it.
func (w *Writer) sameLog(in span) error {
	if in.first < 0 || in.first >= w.known.from || !rule.On(w.base, rule.SameLog) {
		return nil
	}
	return fmt.Errorf("%s takes a record at offset %d, and had one at %d: %w", w.c.Progress, in.first, w.known.from-1, stream.ErrTruncated)
}

// noneBetween makes sure that nobody has committed between the last commit that this owner knows of and
// what it has just written. As a rule there is the marker of that commit and nothing else; else what is there
// is read.
//
//  1. One broker is the group's coordinator and leads the snapshot partition. It is stopped, both move, and
//     an owner commits n + 1.
//  2. It wakes, and for a moment answers as before: a new owner finds offset n, and an end of the snapshot
//     partition where the progress record n is the last. The two agree, and the records after n are folded
//     again.
//  3. What the new owner writes is taken by the leader that there is, and lies behind the commit n + 1.
//
// The commit n + 1 may be an attempt of b itself: its answer was lost, and its read-back at such a broker took
// it for aborted.
func (w *Writer) noneBetween(ctx context.Context, b *batch, p producer, in span) error {
	if !w.known.read || in.first <= w.known.from+1 || !rule.On(w.base, rule.NoneBetween) {
		return nil
	}
	found, err := p.between(ctx, w.known.from, in.first)
	if err != nil {
		return &wire.StepError{Step: wire.StepProduce, Err: err}
	}
	switch {
	case found == nil, (witness{found.Nonce, found.Sequence}) == w.known.progress:
		return nil
	case found.Nonce != w.own.nonce:
		return errAnotherCommitted
	case found.Sequence <= w.sequence || !rule.On(w.base, rule.ReadBack):
		return nil
	}
	b.doubt = true // for who waits: not even its loss says that nothing was committed
	return errMadeBefore
}

// effects returns the records of b and after them the progress record.
func (w *Writer) effects(b *batch) ([]stream.Message, error) {
	key, value, err := Progress{
		Inputs: []InputProgress{{
			Topic: w.c.Input.Topic, TopicID: w.c.InputTopicID, Next: b.next.Next, LeaderEpoch: b.next.LeaderEpoch,
		}},
		Partitions: w.c.InputPartitions, Group: w.c.Group, MemberID: b.token.MemberID, Generation: b.token.Generation,
		Incarnation: w.c.Incarnation, Nonce: b.witness.nonce, Sequence: b.witness.sequence,
		FoldVersion: w.c.FoldVersion, At: time.Now(),
	}.Encode()
	if err != nil {
		return nil, stream.NewError("commit", fmt.Errorf("%w: %w", stream.ErrConfig, err)).At(w.c.Input, b.next.Next)
	}
	headers := []stream.Header{{Key: inputHeader, Value: []byte(w.c.Input.String())}}
	headers = append(append(headers, w.startHeaders()...), w.appliedHeaders(b.next.Next)...)
	return append(b.messages(), stream.Message{Key: key, Value: value, Headers: headers}), nil
}

// react decides what follows from err: nil, and b goes again, or the error that its waiters get.
func (w *Writer) react(ctx context.Context, b *batch, err error) error {
	if late, ok := errors.AsType[errRanOut](err); ok {
		return w.smaller(b, late.err)
	}
	c, hint := classify(err)
	switch {
	case (c == classRecord || c == classInput) && w.absentYet(err):
		c = classAbort
	case c != classRecord && c != classInput:
		w.absent = time.Time{}
	}
	c = w.aged(b, c, err)
	w.refused(b, c, err)
	switch c {
	case classUnknown:
		return w.doubt(b, err)
	case classSlow:
		return w.slow(b, err)
	case classAbort:
		w.abort(ctx)
		return w.again(ctx, b, c, err)
	case classToken:
		w.abort(ctx)
		if w.own.State() != Held {
			return w.lose(b, fmt.Errorf("generation %d was refused while draining: %w", b.token.Generation, err))
		}
		if _, err := w.own.NextToken(ctx, b.token); err != nil {
			if errors.Is(err, stream.ErrOwnershipLost) {
				return w.lose(b, err)
			}
			return stream.NewError("commit", err).At(w.c.Input, b.next.Next) // closed meanwhile
		}
		return nil
	case classRecord:
		w.abort(ctx)
		return w.takeOut(ctx, b, err)
	case classTransient, classFence:
		w.dispose()
		return w.again(ctx, b, c, err)
	case classGone:
		return w.lose(b, err)
	case classReplaced:
		err := w.lose(b, err)
		return w.stop(b, stream.NewError("commit", fmt.Errorf("%w: %w", stream.ErrInstanceTaken, err)).At(w.c.Input, b.next.Next).Hinted("%s", hint))
	case classInput, classFatal:
		e := stream.NewError("commit", errors.Join(sentinelFor(c, err), err)).At(w.c.Input, b.next.Next).Hinted("%s", hint+w.topicOf(b, err))
		e.Group, e.TransactionalID = w.c.Group, w.id
		return w.stop(b, e)
	}
	panic("fence: no such class")
}

// topicOf names the topic that the writer may not write to, behind a hint that ends with the word.
func (w *Writer) topicOf(b *batch, err error) string {
	refusal, ok := errors.AsType[*produceError](err)
	if !ok || !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return ""
	}
	i := slices.IndexFunc(refusal.errs, func(e error) bool { return errors.Is(e, kerr.TopicAuthorizationFailed) })
	topic := w.c.Progress.Topic
	if q, at := b.owner(i); q != nil && q.messages[at].Topic != "" {
		topic = q.messages[at].Topic
	}
	return " " + topic
}

// refused tells the hooks and the log.
func (w *Writer) refused(b *batch, c class, err error) {
	final := c == classGone || c == classReplaced || c == classInput || c == classFatal ||
		c == classFence && w.fences+1 >= maxFences
	w.c.Logger.Warn("transaction did not commit", "cause", c.String(), "code", codeOf(err), "attempt", b.attempts,
		"offset", b.next.Next, "generation", b.token.Generation, "final", final, "error", err)
	for _, h := range w.c.Hooks {
		if h.Refused != nil {
			h.Refused(stream.Refused{Partition: w.c.Input, Cause: c.String(), Code: codeOf(err), Final: final, Err: err})
		}
	}
}

// doubt notes that nobody knows whether b is committed (R5). The client is closed, not asked: its
// abort would answer nil for a transaction that was committed.
func (w *Writer) doubt(b *batch, err error) error {
	w.dispose()
	if !rule.On(w.base, rule.ReadBack) { // as a system would that takes the error for an abort
		return nil
	}
	b.doubt = true
	if !b.readBack && w.c.Unknown != nil {
		w.c.Unknown(err)
	}
	b.readBack = true
	if w.own.State() != Held { // no initialise while draining or gone (R4)
		return w.lose(b, err)
	}
	return nil
}

// again waits before the next attempt, or says why there is none.
func (w *Writer) again(ctx context.Context, b *batch, c class, err error) error {
	if c == classFence {
		if w.fences++; w.fences >= maxFences {
			e := stream.NewError("commit", fmt.Errorf("%w: %w", stream.ErrIDTaken, err)).At(w.c.Input, b.next.Next)
			e.Group, e.TransactionalID = w.c.Group, w.id
			return w.stop(b, e.Hinted("%d refusals in a row: either transactions outlive their timeout of %v (make them smaller),"+
				" or a stopped process wakes and initialises the id late (look for one), or two applications use this"+
				" group and snapshot topic (rename one)", w.fences, w.c.TransactionTimeout))
		}
	}
	if w.producer == nil && w.own.State() != Held {
		return w.lose(b, fmt.Errorf("it cannot be taken over while %s: %w", w.own.State(), err))
	}
	shift := min(b.attempts-1+w.fences, 6)
	pause := min(pauseMin<<shift, pauseMax)
	pause += rand.N(pause / 2) // two that fight must not stay in step
	select {
	case <-time.After(pause):
		return nil
	case <-w.own.Gone():
		return w.lose(b, err)
	case <-ctx.Done():
	}
	if w.own.State() == Gone {
		return w.lose(b, err)
	}
	if b.doubt { // the limit has passed and nobody knows: only the next owner can find out
		return w.lose(b, err)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, errLimit) {
		return stream.NewError("commit", errors.Join(cause, err)).At(w.c.Input, b.next.Next)
	}
	return w.noSuccess(b, err)
}

// lose ends the ownership and returns what b's waiters get.
func (w *Writer) lose(b *batch, cause error) error {
	w.dispose()
	if !errors.Is(cause, stream.ErrOwnershipLost) {
		cause = errors.Join(stream.ErrOwnershipLost, cause)
	}
	queued := stream.NewError("write", cause).At(w.c.Input, -1) // nothing is in doubt about these
	if b.doubt {
		cause = errors.Join(stream.ErrOutcomeUnknown, cause)
	}
	e := stream.NewError("commit", cause).At(w.c.Input, b.next.Next)
	e.Group, e.TransactionalID = w.c.Group, w.id
	w.failAll(queued)
	w.own.Lose(e)
	return e
}

// stop ends the writer, not the ownership: a person must act. An outcome that is in doubt ends the
// ownership too.
func (w *Writer) stop(b *batch, e error) error {
	if b.doubt {
		return w.lose(b, e)
	}
	w.dispose()
	w.failAll(e)
	return e
}

// abort ends the open transaction so that the client can be reused. On transaction.version 1 a
// delayed EndTxn of this transaction could end the next one of the same epoch, so there the client
// is closed, and the takeover aborts.
func (w *Writer) abort(ctx context.Context) {
	if w.producer == nil {
		return
	}
	if !w.producer.reusable() || w.own.State() == Gone {
		w.dispose()
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.c.TransactionTimeout, errLimit)
	defer cancel()
	if err := w.producer.end(ctx, false); err != nil {
		w.dispose()
		return
	}
	w.pacer.end()
}

// dispose closes the client, with no abort (R6).
func (w *Writer) dispose() {
	if w.producer != nil {
		w.producer.close()
		w.producer = nil
	}
}

// takeOut takes the record out that was refused. With one suspect it is that one; several, which is what
// the broker answers for a batch, are looked through.
func (w *Writer) takeOut(ctx context.Context, b *batch, err error) error {
	refusal, ok := errors.AsType[*produceError](err)
	if !ok {
		return stream.NewError("commit", err).At(w.c.Input, b.next.Next)
	}
	var suspects []int
	for i, e := range refusal.errs {
		if e == nil {
			continue
		}
		if isAbsent(e) && w.isProgress(b, i) {
			return w.withoutTopic(b, e)
		}
		suspects = append(suspects, i)
	}
	switch {
	case len(suspects) == 1:
		return w.takeOutOne(b, suspects[0], refusal.errs[suspects[0]])
	case b.most == 1:
		return stream.NewError("commit", err).At(w.c.Progress, -1)
	}
	return w.suspect(ctx, b, suspects)
}

// isProgress reports whether record i of b is for the progress partition.
func (w *Writer) isProgress(b *batch, i int) bool {
	q, at := b.owner(i)
	return q == nil || q.messages[at].Topic == "" || q.messages[at].Topic == w.c.Progress.Topic
}

// withoutTopic stops the writer because its own topic is gone, which is no fault of a record.
func (w *Writer) withoutTopic(b *batch, cause error) error {
	e := stream.NewError("commit", errors.Join(stream.ErrTopic, cause)).At(w.c.Progress, -1)
	e.Group, e.TransactionalID = w.c.Group, w.id
	return w.stop(b, e.Hinted("the topic is missing, or was made again: start again, to see what the start policy makes of it"))
}

// takeOutOne takes record i out of b.
func (w *Writer) takeOutOne(b *batch, i int, cause error) error {
	q, at := b.owner(i)
	if q == nil { // the progress record itself
		e := stream.NewError("commit", errors.Join(stream.ErrTopic, cause)).At(w.c.Progress, -1)
		return w.stop(b, e.Hinted("%s", w.progressRemedy(cause)))
	}
	var step *wire.StepError
	if errors.As(cause, &step) {
		cause = step.Err
	}
	refusal := &Refusal{Index: at, Message: q.messages[at], Err: cause}
	if errors.Is(refusal, stream.ErrTopic) && w.isProgress(b, i) { // it went while a record was looked for
		return w.withoutTopic(b, cause)
	}
	e := stream.NewError("write", refusal).At(w.c.Progress, -1)
	e.Key = q.messages[at].Key
	w.mu.Lock()
	w.withoutLocked(b, q, e)
	w.mu.Unlock()
	return nil
}
