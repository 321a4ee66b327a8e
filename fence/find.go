package fence

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// found is what a search among the records of a batch has come to.
type found struct {
	index int   // of the record that is refused, -1: each of them is taken on its own
	cause error // why it is
	taken int   // without an index: how many were taken together, where more were refused
}

// find looks for the record that the broker refuses, among suspects, of which it has refused several
// together. It sends parts of them, each in a transaction of its own that is aborted, and halves the
// part that is refused: one by one, each with the time of an answer, the records of a large batch take
// longer than a transaction may last. An error is of a probe, and says nothing about a record.
func (w *Writer) find(ctx context.Context, b *batch, suspects []int) (found, error) {
	ms, err := w.effects(b)
	if err != nil {
		return found{}, err
	}
	// The first one alone: where the whole topic is missing, each answer takes long.
	parts := append(halves(suspects[1:], nil), suspects[:1])
	taken := len(suspects)
	for first := true; len(parts) > 0; first = false {
		part := parts[len(parts)-1]
		parts = parts[:len(parts)-1]
		refused, err := w.probe(ctx, b, ms, part)
		if err == nil {
			if !first {
				taken = min(taken, len(part))
			}
			continue
		}
		if c, _ := classify(err); c != classRecord || w.absentYet(err) {
			return found{}, err
		}
		if len(refused) == 1 {
			return found{index: refused[0], cause: err}, nil
		}
		parts = halves(refused, parts)
	}
	return found{index: -1, taken: taken}, nil
}

// halves appends the halves of part, so that the first one is taken off the end first.
func halves(part []int, to [][]int) [][]int {
	n := (len(part) + 1) / 2
	for _, half := range [][]int{part[n:], part[:n]} {
		if len(half) > 0 {
			to = append(to, half)
		}
	}
	return to
}

// probe sends some of ms in a transaction that is aborted, and returns those that were refused with
// the error that decides. Nothing becomes visible, so that no offset has to be bound.
func (w *Writer) probe(ctx context.Context, b *batch, ms []stream.Message, part []int) (refused []int, err error) {
	if w.producer == nil {
		if _, err := w.retake(ctx, b); err != nil {
			return nil, err
		}
	}
	sent := make([]stream.Message, len(part))
	for i, at := range part {
		sent[i] = ms[at]
	}
	w.pacer.wait(ctx)
	b.begun, b.wrote = time.Now(), time.Time{}
	if err := w.producer.begin(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, w.c.TransactionTimeout, errLimit)
	defer cancel()
	_, _, errs := w.producer.produce(bounded, sent, 0)
	all := &produceError{make([]error, len(ms))}
	for i, e := range culprits(errs) {
		if e != nil {
			refused = append(refused, part[i])
			all.errs[part[i]] = e
		}
	}
	if len(refused) == 0 {
		w.abort(ctx)
		return nil, nil
	}
	if c, _ := classify(all); c == classRecord {
		w.abort(ctx)
	}
	return refused, all
}

// suspect finds out which record is refused, when several were refused together, and takes it out.
func (w *Writer) suspect(ctx context.Context, b *batch, suspects []int) error {
	began := time.Now()
	before := b.most
	f, err := w.find(ctx, b, suspects)
	if err != nil {
		if c, _ := classify(err); c == classRecord && !isAbsent(err) { // of a take-over, which no record can be the cause of
			return stream.NewError("commit", err).At(w.c.Input, b.next.Next)
		}
		return w.react(ctx, b, err)
	}
	w.c.Logger.Info("looked for the record that was refused", "suspects", len(suspects), "found", f.index >= 0, "took", time.Since(began))
	if f.index < 0 { // together they are more than the topic takes
		b.most = f.taken
		if before > 0 { // those of which the size is known are not all alike
			b.most = min(f.taken, (before+1)/2)
		}
		return nil
	}
	refusal, _ := errors.AsType[*produceError](f.cause)
	return w.takeOutOne(b, f.index, refusal.errs[f.index])
}

// progressRemedy is the next step after a refusal of the progress record, which has a key and some 200 bytes.
func (w *Writer) progressRemedy(cause error) string {
	if errors.Is(cause, kerr.MessageTooLarge) || errors.Is(cause, kerr.RecordListTooLarge) {
		return "the topic takes no record of 200 bytes: look at its max.message.bytes"
	}
	return wire.Remedy(cause, "record", w.c.Progress.Topic)
}
