package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
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
		m.fail(final)
		return
	}
	log := m.log
	if topic != "" { // else it is about the group or the connection
		log = log.With("partition", p.String())
	}
	if group := (*kgo.ErrGroupSession)(nil); errors.As(err, &group) {
		log.Warn("joining the group is tried again", "error", err)
		return
	}
	log.Warn("fetch is tried again", "error", err)
}

// instanceWatch tells a static member of KIP-848 whose process died from one whose instance id another
// process has. The brokers keep the id of a dead one for its session, and refuse whoever comes with it; of a
// living one they keep it for as long as that lives.
type instanceWatch struct {
	first, last time.Time // refusals
}

// forgotten is longer than the client's pause between two attempts to join: a refusal after that is another
// matter.
const forgotten = time.Minute

// held returns nil while the refusals may be those of a dead process's id.
func (w *instanceWatch) held(now time.Time, s fence.Session, err error) error {
	if now.Sub(w.last) > forgotten {
		w.first = now
	}
	w.last = now
	limit := s.SessionTimeout + 2*s.HeartbeatInterval + 10*time.Second // the broker looks at its sessions in its own time
	if now.Sub(w.first) < limit {
		return nil
	}
	e := stream.NewError("join", fmt.Errorf("instance id %q is another's for longer than a session of %v: %w: %w", s.InstanceID, s.SessionTimeout, stream.ErrInstanceTaken, err))
	e.Group = s.Group
	return e.Hinted("give each process an instance id of its own")
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
		m.fail(changed)
		return
	}
	w.log.Warn("fetch is tried again: the leader does not know the topic id", "error", errors.Join(changed, err))
	select {
	case <-time.After(500 * time.Millisecond):
		m.post(func() { m.resume(w) })
	case <-w.ctx.Done():
	}
}

// refusedBy is the error of a member that its group does not take.
func (m *Member) refusedBy(err error) *stream.Error {
	e := stream.NewError("join", err)
	e.Group = m.cfg.Session.Group
	return e
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
		case next < first:
			m.fail(gone)
			return
		case next <= end:
			w.log.Warn("fetch is tried again: the log has the offset that was said to be out of range", "start", first, "end", end, "error", gone)
			m.post(func() { m.resume(w) })
			return
		}
	}
	m.fail(gone)
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
			At(p, offset).Hinted("records were deleted by retention before they were folded, or the log was truncated: " +
			"raise the input's retention; to go on without them reset the group's offset and choose Rebuild (Start.Disagreement)")
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		return stream.NewError("fetch", fmt.Errorf("the input topic was deleted or created again: %w: %w", stream.ErrInputChanged, err)).
			At(p, offset).Hinted("choose Rebuild (Start.Disagreement) to fold the topic as it is, or use another group")
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return stream.NewError("fetch", fmt.Errorf("%w: %w", stream.ErrNotAuthorized, err)).At(p, -1).
			Hinted("allow READ on topic %s", strings.Join(m.topics(), ", "))
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return m.refusedBy(fmt.Errorf("%w: %w", stream.ErrNotAuthorized, err)).
			Hinted("allow READ on group %s", m.cfg.Session.Group)
	case errors.Is(err, kerr.FencedInstanceID):
		return m.refusedBy(fmt.Errorf("another process joined with instance id %q: %w: %w", m.cfg.Session.InstanceID, stream.ErrInstanceTaken, err)).
			Hinted("give each process an instance id of its own")
	case errors.Is(err, kerr.UnreleasedInstanceID):
		return m.instances.held(time.Now(), m.cfg.Session, err)
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		return m.refusedBy(fmt.Errorf("%w: %w", stream.ErrOtherProtocol, err)).
			Hinted("it has members that do not speak %v: stop all of its members before Member.Protocol is changed between Cooperative and Eager,"+
				" and use a group of its own for each application", m.cfg.Session.Protocol)
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return m.refusedBy(fmt.Errorf("session timeout %v: %w: %w", m.cfg.Session.SessionTimeout, stream.ErrConfig, err)).
			Hinted("choose one between the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms")
	}
	if explained := kafka.Explain(err); errors.Is(explained, stream.ErrNotAuthenticated) || errors.Is(explained, stream.ErrBrokerTooOld) {
		return explained
	}
	return nil
}
