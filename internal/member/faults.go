package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// fetchError is told every error that a poll returns. What cannot heal by itself stops the flow; the
// client tries the rest again.
func (m *Member) fetchError(topic string, partition int32, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return // we woke the poll, or are closing
	}
	p := stream.Partition{Topic: topic, Partition: partition}
	if group := (*kgo.ErrGroupSession)(nil); errors.As(err, &group) {
		m.groupError(err)
		return
	}
	if final := m.finalFetchError(p, err); final != nil {
		w := m.worker(p)
		if w != nil {
			m.pause(w) // the client would repeat the error with every fetch
		}
		if w != nil && errors.Is(final, stream.ErrInputChanged) {
			m.wg.Go(func() { m.confirm(w, final) })
			return
		}
		if w != nil && errors.Is(err, kerr.OffsetOutOfRange) {
			if w.outOfRange++; w.outOfRange <= looks {
				next := w.fetched
				m.wg.Go(func() { m.confirmRange(w, next, final) })
				return
			}
		}
		if w != nil {
			final = w.priced(final)
		}
		m.fail(final)
		return
	}
	log := m.log
	if topic != "" { // else it is about the connection
		log = log.With("partition", p.String())
	}
	log.Warn("fetch is tried again", "error", err)
}

// groupError is told what the client's management of the group has failed with. What cannot pass stops the
// member; the client joins again after the rest.
func (m *Member) groupError(err error) {
	final := m.refusals.lasting(time.Now(), m.cfg.Session, err)
	if explained := kafka.Explain(err); final == nil &&
		(errors.Is(explained, stream.ErrNotAuthenticated) || errors.Is(explained, stream.ErrBrokerTooOld)) {
		final = explained
	}
	if final != nil {
		m.fail(final)
		return
	}
	m.mu.Lock()
	m.refused, m.refusedAt = err, time.Now()
	m.mu.Unlock()
	m.log.Warn("joining the group is tried again", "error", err)
}

// confirm stops the member with an error that says that the input is another topic, if it is one. Where
// it is the same, the leader of the partition has not heard of it yet, and fetching goes on.
func (m *Member) confirm(w *worker, changed error) {
	topic := w.own.Partition().Topic
	facts, err := w.inputFacts(w.ctx)
	switch {
	case w.ctx.Err() != nil:
		return
	case err == nil && (!facts.Exists || facts.ID != m.input(topic).ID):
		m.fail(w.priced(changed))
		return
	}
	w.log.Warn("fetch is tried again: the leader does not know the topic id", "error", errors.Join(changed, err))
	select {
	case <-time.After(500 * time.Millisecond):
		m.post(func() { m.resume(w) })
	case <-w.ctx.Done():
	}
}

// confirmRange stops the member with an error that says that records are gone, if the log has none at next and
// does not end there either. One answer does not show that:
//
//  1. A broker that leads the input is stopped, another one leads, and what it takes is folded.
//  2. The first one wakes. A process that starts has its metadata from it, and the epoch of then: it fetches
//     from it, behind the end of its log.
//
// The start of a log never falls, so that what is below it is gone whoever says so.
func (m *Member) confirmRange(w *worker, next int64, gone error) {
	for look := range looks {
		if pauseBefore(w.ctx, look+1) != nil {
			return
		}
		first, end, _, err := w.input().Ends(w.ctx)
		switch {
		case w.ctx.Err() != nil:
			return
		case err != nil:
			m.fail(fmt.Errorf("%w; the log's ends could not be asked for: %w", gone, err))
			return
		case next < first && m.cfg.Start.LogStart:
			m.post(func() { m.passOver(w, next, first) })
			return
		case next < first:
			m.fail(w.priced(w.located(w.asked(extent{first, end}).belowStart(next))))
			return
		case next <= end:
			w.log.Warn("fetch is tried again: the log has the offset that was said to be out of range", "start", first, "end", end, "error", gone)
			m.post(func() { m.resume(w) })
			return
		}
		gone = w.located(w.asked(extent{first, end}).pastEnd(next))
	}
	m.fail(w.priced(gone))
}

func (m *Member) finalFetchError(p stream.Partition, err error) error {
	loss := (*kgo.ErrDataLoss)(nil)
	offset := int64(-1)
	if w := m.worker(p); w != nil {
		offset = w.position
		if batch := wire.Undecodable(p, w.fetched, err); batch != nil {
			return batch
		}
	}
	switch {
	case errors.As(err, &loss), errors.Is(err, kerr.OffsetOutOfRange):
		return stream.NewError("fetch", fmt.Errorf("the next record to fold is not in the log any more: %w: %w", stream.ErrTruncated, err)).
			At(p, offset).Hinted("records were deleted by retention before they were folded, or the log was truncated by an unclean election: " +
			"start it again, which says what is gone and what the choices are")
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		return stream.NewError("fetch", fmt.Errorf("the input topic was deleted or created again: %w: %w", stream.ErrInputChanged, err)).
			At(p, offset).Hinted("choose Rebuild (Start.Disagreement) to fold the topic as it is, or use another group")
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return stream.NewError("fetch", fmt.Errorf("%w: %w", stream.ErrNotAuthorized, err)).At(p, -1).
			Hinted("allow READ on topic %s", strings.Join(m.topics(), ", "))
	}
	if explained := kafka.Explain(err); errors.Is(explained, stream.ErrNotAuthenticated) || errors.Is(explained, stream.ErrBrokerTooOld) {
		return explained
	}
	return nil
}
