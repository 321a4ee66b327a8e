package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	stallLogEvery   = 5 * time.Second
	retakeAfter     = 2 * time.Second
	diagnoseTimeout = 10 * time.Second
)

// standstill is one time during which the position does not advance, and what is to be done in it.
type standstill struct {
	since       time.Time
	nextLog     time.Time
	nextRetake  time.Time
	retakePause time.Duration
}

func newStandstill(since time.Time) standstill {
	return standstill{since: since, nextLog: since.Add(stallLogEvery),
		nextRetake: since.Add(retakeAfter), retakePause: retakeAfter}
}

// watch looks after the read until ctx ends, which is when it returns nil. An error of it ends the
// restore.
func (r *restore) watch(ctx context.Context) error {
	still := newStandstill(r.stillSince())
	for {
		due := still.nextLog
		if r.Retake != nil && still.nextRetake.Before(due) {
			due = still.nextRetake
		}
		deadline := still.since.Add(r.StallTimeout)
		if r.StallTimeout > 0 && deadline.Before(due) {
			due = deadline
		}
		if !sleepUntil(ctx, due) {
			return nil
		}
		if since := r.stillSince(); !since.Equal(still.since) {
			still = newStandstill(since)
			continue
		}
		now := time.Now()
		if r.StallTimeout > 0 && !now.Before(deadline) {
			return r.stalled(ctx, now.Sub(still.since))
		}
		if !now.Before(still.nextLog) {
			still.nextLog = still.nextLog.Add(stallLogEvery)
			r.tellStall(now.Sub(still.since))
		}
		if r.Retake != nil && !now.Before(still.nextRetake) {
			if err := r.retake(ctx, deadline); err != nil {
				return err
			}
			still.retakePause *= 2
			still.nextRetake = time.Now().Add(still.retakePause)
		}
	}
}

// stillSince returns when the log last gave something: now, while Each has the say.
func (r *restore) stillSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handing {
		return time.Now()
	}
	return r.advancedAt
}

func (r *restore) where() (position int64, retried error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.position, r.retried
}

// sleepUntil waits for the time and reports whether it came; false means that ctx ended first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (r *restore) tellStall(since time.Duration) {
	position, retried := r.where()
	attrs := []any{"offset", position, "target", r.target, "seconds", int64(since.Seconds()), "stall_timeout", r.StallTimeout}
	if retried != nil {
		attrs = append(attrs, "last_error", retried)
	}
	r.Logger.Info("restore makes no progress", attrs...)
	if r.Stalled != nil {
		r.Stalled(stream.Stalled{Partition: r.at, Position: position, Target: r.target, For: since})
	}
}

// retake takes our own transactional id over again if a transaction on it is what the read waits for.
//
//  1. The takeover at the assignment aborted what the last owner had left open.
//  2. A stale owner that was paused between two requests initialised the id after that, and opened a
//     transaction on it.
//  3. The high watermark was captured above that transaction's first record.
//
// Nobody but us would end it before its timeout.
func (r *restore) retake(ctx context.Context, deadline time.Time) error {
	if r.TransactionalID == "" {
		return nil
	}
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if r.StallTimeout > 0 {
		bounded, cancel = context.WithDeadline(ctx, deadline)
	}
	defer cancel()
	open, err := r.source.OpenOn(bounded, r.TransactionalID)
	if bounded.Err() != nil {
		return nil // the read has ended, or the stall timeout is due and has the say
	}
	switch {
	case err != nil:
		// Taking over without need costs an epoch and harms nobody, not taking over can cost minutes.
		r.Logger.Info("it cannot be seen whether the restore waits for our own transactional id; it is taken over again",
			"transactional_id", r.TransactionalID, "error", err)
	case !open:
		return nil
	default:
		r.Logger.Warn("restore waits for an open transaction on our own transactional id: another process opened it "+
			"after the takeover; the id is taken over again", "transactional_id", r.TransactionalID)
	}
	err = r.Retake(bounded)
	if err != nil && bounded.Err() != nil {
		return nil
	}
	return err
}

// stalled diagnoses why the read stood still and returns the error that says so.
func (r *restore) stalled(ctx context.Context, since time.Duration) error {
	asking, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	position, retried := r.where()
	d := r.diagnose(asking, position, retried)
	if ctx.Err() != nil {
		return nil // the read ended while it was diagnosed, so its own outcome counts
	}
	err := r.stallError(position, since, d)
	if r.Stalled != nil {
		r.Stalled(stream.Stalled{Partition: r.at, Position: position, Target: r.target, For: since,
			Final: true, Diagnosis: d.cause})
	}
	return err
}

// noAnswer is the stall of a restore that could not even read the log's ends.
func (r *restore) noAnswer(err error) error {
	d := diagnosis{
		cause: fmt.Sprintf("cause undetermined: the leader did not tell where the log ends: %v", err),
		hint:  "check that the brokers are up and the partition has a leader: " + r.source.DescribeCommand(),
	}
	since := time.Since(r.began)
	if r.Stalled != nil {
		r.Stalled(stream.Stalled{Partition: r.at, For: since, Final: true, Diagnosis: d.cause})
	}
	return r.stallError(0, since, d)
}

func (r *restore) stallError(position int64, since time.Duration, d diagnosis) error {
	cause := stream.ErrRestoreStalled
	if d.truncated {
		cause = errors.Join(stream.ErrRestoreStalled, stream.ErrTruncated)
	}
	e := stream.NewError("restore", &stallCause{is: cause, text: fmt.Sprintf(
		"stalled, no progress for %s at offset %d of %d: %s", since.Round(time.Second), position, r.target, d.cause)})
	e.TransactionalID = r.TransactionalID
	return e.At(r.at, position).Hinted("%s", d.hint)
}

// truncated adds the next step to a read that ran into the shortened end of the log.
func (r *restore) truncated(err error) error {
	position, _ := r.where()
	return stream.NewError("restore", err).At(r.at, position).Hinted("%s", r.truncationHint())
}

// stallCause reads as one sentence and is several errors.
type stallCause struct {
	is   error
	text string
}

func (c *stallCause) Error() string { return c.text }
func (c *stallCause) Unwrap() error { return c.is }

// diagnosis is why a read stands still, and the next step.
type diagnosis struct {
	cause     string
	hint      string
	truncated bool
}

// diagnose reads the log's end again, because the causes need opposite answers.
func (r *restore) diagnose(ctx context.Context, position int64, retried error) diagnosis {
	_, end, lastStable, err := r.source.Ends(ctx)
	switch {
	case err != nil:
		text := fmt.Sprintf("cause undetermined: reading the log's end again failed: %v", err)
		if retried != nil {
			text += fmt.Sprintf("; the read's last error was: %v", retried)
		}
		return diagnosis{cause: text,
			hint: "check that the brokers are up and the partition has a leader, then restart: " + r.source.DescribeCommand()}
	case end < r.target:
		return diagnosis{truncated: true, hint: r.truncationHint(), cause: fmt.Sprintf(
			"the log was truncated: it ends at %d now, %d offsets below the high watermark captured at the start. "+
				"The brokers lost acknowledged records, as after an unclean leader election or a lost disk", end, r.target-end)}
	case lastStable >= r.target || lastStable > position:
		d := diagnosis{cause: fmt.Sprintf("no transaction holds the read back (last stable offset %d), but fetches bring nothing", lastStable),
			hint: "look at the leader's log for this partition, then restart: " + r.source.DescribeCommand()}
		if retried != nil {
			d.cause += fmt.Sprintf(": %v", retried)
		}
		return d
	}
	holders, err := r.source.Holders(ctx)
	return r.held(lastStable, holders, err)
}

func (r *restore) truncationHint() string {
	return "the records cannot be read again. A flow or pipe that is started again compares the committed offset with what is " +
		"left, stops, and says how to go on: by a reset of the group's offset to the snapshots', or by Rebuild. A loop of your own " +
		"has to do that itself: older snapshots under a newer committed offset lack what is between them. Or restore the topic " +
		"from a backup. Look for unclean.leader.election.enable and min.insync.replicas below 2: " + r.source.DescribeCommand()
}

// held describes the open transaction that the read waits for.
func (r *restore) held(lastStable int64, holders []wire.Holder, err error) diagnosis {
	lead := fmt.Sprintf("an open transaction holds the last stable offset at %d", lastStable)
	if err != nil {
		return diagnosis{cause: fmt.Sprintf("%s; who holds it could not be found out: %v", lead, err),
			hint: "find it with kafka-transactions.sh find-hanging or describe-producers, end its producer, and restart. To abort it: " +
				r.source.AbortCommand(wire.Holder{FirstOffset: lastStable})}
	}
	if len(holders) == 0 {
		return diagnosis{cause: lead + " when the restore gave up, and ended since then",
			hint: "restart: the restore will get further"}
	}
	h := holders[0]
	text := lead + ": " + r.holder(h)
	if n := len(holders) - 1; n > 0 {
		text += fmt.Sprintf(". After it %d more are open, the next from offset %d", n, holders[1].FirstOffset)
	}
	return diagnosis{cause: text, hint: r.holderHint(h)}
}

func (r *restore) holder(h wire.Holder) string {
	who := h.Producer()
	if h.TransactionalID != "" && h.TransactionalID == r.TransactionalID {
		who = fmt.Sprintf("transactional id %q, this partition's own, opened by another process (producer id %d epoch %d)", h.TransactionalID, h.ProducerID, h.ProducerEpoch)
	}
	return who + h.Since()
}

func (r *restore) holderHint(h wire.Holder) string {
	abort := "To abort it, which Holdfast never does by itself: " + r.source.AbortCommand(h)
	switch {
	case h.TransactionalID != "" && h.TransactionalID == r.TransactionalID && !h.Forgotten():
		return "another process works under this group and snapshot topic, and is not stopped by a takeover: find and stop it, then restart. " + abort
	case h.Forgotten():
		return "no producer will end it. " + abort
	case h.Overdue():
		return "check that the brokers that lead __transaction_state are up. " + abort
	case !h.Started.IsZero():
		return fmt.Sprintf("wait, its coordinator aborts it by %s at the latest and a restart after that succeeds; or stop the "+
			"process that uses this transactional id. %s", h.Ends().UTC().Format(time.RFC3339), abort)
	}
	return "stop the producer that writes to this topic, wait for its transaction timeout, and restart. " + abort
}
