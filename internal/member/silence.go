package member

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// watchSilence stops the member when the group has not answered anything useful for too long: the client would
// try for ever, and nobody would know that nothing is folded (I6). Heartbeats answer no sooner than they are sent.
func (m *Member) watchSilence(ctx context.Context) {
	limit := max(m.cfg.SilenceLimit, 3*m.cfg.Session.HeartbeatInterval)
	look := min(limit/4, 10*time.Second)
	tick := time.NewTicker(look)
	defer tick.Stop()
	watch := newSilenceWatch(time.Now(), look)
	told := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		silent := watch.heard(time.Now(), m.group.Silence())
		if silent > limit {
			m.fail(m.silentFor(silent))
			return
		}
		long := silent > max(m.cfg.Session.SessionTimeout, limit/5)
		if long && !told {
			m.log.Warn("the group gives no answer that lets the member go on", "silent", silent.Round(time.Second), "limit", limit)
		}
		told = long
	}
}

// silentFor is the error of a member whose group has given no useful answer for so long. What it was refused
// with since then is named; a coordinator that is not available is not told by the client, but as brokers that
// do not answer.
func (m *Member) silentFor(silent time.Duration) error {
	m.mu.Lock()
	refused, at := m.refused, m.refusedAt
	m.mu.Unlock()
	why := fmt.Errorf("no answer that lets the member go on for %v: %w", silent.Round(time.Second), stream.ErrUnreachable)
	if refused != nil && time.Since(at) < silent {
		why = fmt.Errorf("%w; joining failed last with: %w", why, refused)
	}
	e := stream.NewError("stay in group", why)
	e.Group = m.cfg.Session.Group
	return e.Hinted("look at the brokers, at the group's coordinator and at the network, then start again: what was folded since the last commit is folded again")
}

// silenceWatch counts a silence only while this process runs, for one that was stopped has not asked:
//
//  1. The process is stopped (SIGSTOP, a paused machine) for longer than the limit, and goes on.
//  2. The watch looks before the client's first heartbeat is answered, and finds no answer for as long.
//  3. The flow would end as if the brokers were gone, and they are well.
type silenceWatch struct {
	look          time.Duration // between two looks of a process that runs
	looked, awake time.Time
}

func newSilenceWatch(now time.Time, look time.Duration) *silenceWatch {
	return &silenceWatch{look: look, looked: now, awake: now}
}

// heard returns the part of a silence in which the process ran.
func (w *silenceWatch) heard(now time.Time, silence time.Duration) time.Duration {
	if now.Sub(w.looked) > 2*w.look {
		w.awake = now
	}
	w.looked = now
	return min(silence, now.Sub(w.awake))
}

// watchProtocol stops the member when its client speaks another protocol than it was told to: what the
// preflight found has changed, and nothing would say so.
func (m *Member) watchProtocol(ctx context.Context) {
	select {
	case <-m.group.FellBack():
		e := stream.NewError("join group", fmt.Errorf("the brokers do not offer KIP-848 any more: %w", stream.ErrBrokerTooOld))
		e.Group = m.cfg.Session.Group
		m.fail(e.Hinted("look at group.version and at group.coordinator.rebalance.protocols of the brokers, or leave Member.Protocol unset"))
	case <-ctx.Done():
	}
}
