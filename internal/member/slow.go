package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/pace"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// slowest is how often in a row the transaction of what cannot be made smaller, a single step or a single
// state, may run out of time before that stops the member. It may so for SilenceLimit, too: where timeouts are
// short, a leader may be away for as long as a coordinator may.
const slowest = 10

// pacing is what is known of a partition's pace over its ownerships. It is safe for concurrent use: the worker of
// an ownership that was lost may be in a user function when the next one begins.
type pacing struct {
	mu    sync.Mutex
	pace  pace.Pace
	stuck time.Time // since when what cannot be made smaller has been tried
	last  time.Time // when it ran out of time last
}

// learned is the bound of a batch, 0: none.
func (p *pacing) learned() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pace.Learned()
}

// ranOut tells of a batch whose time ran out, and returns how often in a row that was one which cannot be made
// smaller, and for how long. After a pause longer than forget the count begins anew: the partition was another's
// meanwhile, whose commits are not seen here.
func (p *pacing) ranOut(now time.Time, bytes int64, alone bool, timeout, forget time.Duration) (times int, since time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.last) > timeout+forget {
		p.pace.Anew()
	}
	p.last = now
	if times = p.pace.RanOut(bytes, alone); times <= 1 {
		p.stuck = now.Add(-timeout)
	}
	return times, now.Sub(p.stuck)
}

// hopeless reports whether what cannot be made smaller has run out of time so often, and for so long, that the
// member stops.
func hopeless(times int, since, limit time.Duration) bool { return times >= slowest && since >= limit }

func (p *pacing) wrote(bytes int64, took, had time.Duration, full int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.Wrote(bytes, took, had, full)
}

// paceOf returns what is known of a partition's pace.
func (m *Member) paceOf(p stream.Partition) *pacing {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paces[p] == nil {
		m.paces[p] = &pacing{}
	}
	return m.paces[p]
}

// tooSlow is how long what goes beside a transaction may make no progress: as long as transactions may.
func (m *Member) tooSlow() time.Duration {
	return max(slowest*m.cfg.TransactionTimeout, m.cfg.SilenceLimit)
}

// stalledError ends the ownership and the member: what goes beside a transaction makes no progress.
type stalledError struct{ error }

func (e stalledError) Unwrap() error { return e.error }

// slowWrite is the error of what goes beside a transaction and makes no progress.
func (w *worker) slowWrite(op string, err error) error {
	why := "no broker tells of a quota: look at the link to the brokers, and at the leaders and replicas of the topics"
	if told := w.m.throttle.Since(time.Now().Add(-w.m.tooSlow())); told != "" {
		err = fmt.Errorf("%s: %w", told, err)
		why = "raise its quota (kafka-configs.sh --describe --entity-type clients, and users)"
	}
	return stalledError{stream.NewError(op, err).At(w.own.Partition(), -1).Hinted("nothing that stands behind it was committed: %s", why)}
}

// ranOut reports whether a transaction ran out of time while the partition is still owned.
func ranOut(err error) bool {
	_, stalled := errors.AsType[stalledError](err)
	return errors.Is(err, stream.ErrTooSlow) && !errors.Is(err, stream.ErrOwnershipLost) && !stalled
}

// fitted notes that a batch was written within its time.
func (w *worker) fitted(b *engine.Batch) {
	w.pace.wrote(b.Size, w.took, w.m.cfg.TransactionTimeout, w.m.cfg.MaxBytes)
	w.engine.Bound(w.pace.learned())
}

// leaderPatience is how long a leader may take to tell where its partition ends: longer than over any link that is
// narrow and not cut.
const leaderPatience = 30 * time.Second

// leaderAway is the error of a batch that could not be written because a leader of what it writes to does not
// answer, nil if they all do: then it is what is written that takes too long. It ends the member.
func (w *worker) leaderAway(b *engine.Batch) error {
	ctx, cancel := context.WithTimeout(w.ctx, leaderPatience)
	defer cancel()
	at := w.m.progress(w.own.Partition())
	_, _, _, err := wire.Log{Client: w.m.admin, Topic: at.Topic, Partition: at.Partition}.Ends(ctx)
	where := at.String()
	if topics := b.OutputTopics(); err == nil && len(topics) > 0 {
		var ends kadm.ListedOffsets
		ends, err = kadm.NewClient(w.m.admin).ListEndOffsets(ctx, topics...)
		err, where = errors.Join(err, ends.Error()), fmt.Sprintf("a partition of %q", topics)
	}
	if err == nil || w.ctx.Err() != nil {
		return nil
	}
	return stalledError{stream.NewError("commit", fmt.Errorf("the leader of %s is away, and nothing was committed for longer than %v: %w: %w",
		where, w.m.cfg.SilenceLimit, stream.ErrUnreachable, err)).At(w.own.Partition(), b.Next).
		Hinted("look at that broker, and whether the partition has a leader (kafka-topics.sh --describe --unavailable-partitions), then start again: what was folded since the last commit is folded again")}
}

// slow has what was in a batch that ran out of time come again in smaller ones (R27). Where the batch is whole
// and has states, the ownership ends, as memory is ahead of what is committed (I5): the partition is granted
// anew and restored, and folds on to the smaller bound.
func (w *worker) slow(now time.Time, b *engine.Batch, err error) error {
	again := w.engine.Slow(now, b)
	times, since := w.pace.ranOut(now, b.Size, again == engine.Unchanged, w.m.cfg.TransactionTimeout, w.m.tooSlow())
	bound := w.pace.learned()
	w.engine.Bound(bound)
	if since >= w.m.cfg.SilenceLimit { // each attempt may take minutes, and less to write would not help
		if away := w.leaderAway(b); away != nil {
			return away
		}
	}
	if hopeless(times, since, w.m.cfg.SilenceLimit) {
		return fmt.Errorf("the transaction of one step or state alone, %d times in a row: %w", times, err)
	}
	w.log.Info("a batch that ran out of time comes again smaller", "bytes", b.Size, "bound", bound, "alone", again == engine.Unchanged)
	p := w.own.Partition()
	switch again {
	case engine.Unchanged:
		w.start(b)
	case engine.Smaller:
	case engine.Restored:
		w.m.committedOnce(p) // the next one is another batch
		return stream.NewError("commit", fmt.Errorf("the state goes back, and smaller batches are made of it: %w: %w", stream.ErrOwnershipLost, err)).
			At(p, b.Next)
	}
	return nil
}
