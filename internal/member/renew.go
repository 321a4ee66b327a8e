package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// renewLater grants a partition anew whose ownership ended while the group still assigns it to us:
// nobody else ever will (R2). The pause grows with each renewal that led to no commit.
func (m *Member) renewLater(gone *worker) {
	p := gone.own.Partition()
	m.mu.Lock()
	m.renewed[p]++
	pause := min(50*time.Millisecond<<min(m.renewed[p], 7), 5*time.Second)
	m.mu.Unlock()
	m.renewAfter(pause, gone)
}

func (m *Member) renewAfter(pause time.Duration, gone *worker) {
	m.wg.Go(func() {
		select {
		case <-time.After(pause):
			m.mu.Lock()
			m.due = append(m.due, gone)
			m.mu.Unlock()
			m.post(m.renewDue)
		case <-m.ctx.Done():
		}
	})
}

// renewals bounds how often in a row a partition is granted anew, with no commit between, for a
// failure that may pass: with the pauses that is about two minutes.
const renewals = 30

func (m *Member) mayRenew(p stream.Partition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renewed[p] < renewals
}

// untaken is a time in which takeovers of a partition have failed one after the other: each was given up, or
// the membership ended before it was through.
type untaken struct{ began, ended time.Time }

// takeoverFailed notes a takeover that began then, and returns for how long they have failed. Each attempt may
// take minutes, and those of a member that is let in again and again are not counted at all.
func (m *Member) takeoverFailed(p stream.Partition, began, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.untaken[p]
	if began.Sub(u.ended) > forgotten {
		u.began = began
	}
	u.ended = now
	m.untaken[p] = u
	return now.Sub(u.began)
}

func (m *Member) tookOver(p stream.Partition) {
	m.mu.Lock()
	delete(m.untaken, p)
	m.mu.Unlock()
}

// neverTaken is the error of a partition whose takeovers have failed for longer than a group may be silent, nil
// if they have not: nothing is folded, and nobody would know (I6).
func (w *worker) neverTaken(cause error) error {
	if cause == nil || w.store != nil || w.m.ctx.Err() != nil || !passing(cause) && !errors.Is(cause, stream.ErrOwnershipLost) {
		return nil
	}
	failed := w.m.takeoverFailed(w.own.Partition(), w.began, time.Now())
	if failed < w.m.cfg.SilenceLimit {
		return nil
	}
	e := stream.NewError("take over", fmt.Errorf("the partition could not be taken over for %v: %w; the last attempt ended with: %w",
		failed.Round(time.Second), stream.ErrUnreachable, cause)).At(w.own.Partition(), -1)
	e.Group = w.m.cfg.Session.Group
	return e.Hinted("look at the coordinators of the group and of the transactional id, and at the brokers' load, then start again: nothing was written")
}

// renewDue runs between polls. All that are due are asked for side by side: rebalances are held up for a
// heartbeat interval at the most, however many partitions there are. One after the other, twenty of them would
// outlast the rebalance timeout while the coordinator does not answer, and the member would lose those too that
// it still owns.
func (m *Member) renewDue() {
	m.mu.Lock()
	due := m.due
	m.due = nil
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Session.HeartbeatInterval)
	defer cancel()
	owns, errs := make([]*fence.Ownership, len(due)), make([]error, len(due))
	var asked sync.WaitGroup
	for i, gone := range due {
		asked.Go(func() { owns[i], errs[i] = m.renew(ctx, gone.own) })
	}
	asked.Wait()
	for i, gone := range due {
		m.grantedAnew(gone, owns[i], errs[i])
	}
}

// grantedAnew goes on with what the group has answered.
func (m *Member) grantedAnew(gone *worker, o *fence.Ownership, err error) {
	switch {
	case errors.Is(err, stream.ErrNotAuthorized):
		m.fail(err) // it names the ACL, and asking again does not give it
	case err != nil:
		m.log.Warn("partition could not be granted anew yet", "partition", gone.own.Partition(), "error", err)
		if !m.mayRenew(gone.own.Partition()) {
			m.fail(stream.NewError("grant partition anew", fmt.Errorf("%w: %w", stream.ErrUnreachable, err)).At(gone.own.Partition(), -1).
				Hinted("the group's coordinator did not answer for minutes: look at the brokers and start again, nothing is lost"))
			return
		}
		m.renewLater(gone)
	case o != nil:
		m.log.Info("partition granted anew", "partition", o.Partition(), "ownership", o.Number())
		w := m.adopt(o)
		m.pause(w)
		m.launch(w)
	case m.group.Owned(gone.own.Partition()) == gone.own:
		// The group does not know the member, or the client has another id: a callback follows, as a rule. A
		// coordinator that was deposed, and says so before it hears of that, is followed by none.
		m.renewAfter(m.cfg.Session.HeartbeatInterval, gone)
	}
}

func (m *Member) committedOnce(p stream.Partition) {
	m.mu.Lock()
	delete(m.renewed, p)
	m.mu.Unlock()
}
