package member

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// watchSilence stops the member when the group has not answered for too long: the client would try
// for ever, and nobody would know that nothing is folded (I6).
func (m *Member) watchSilence(ctx context.Context) {
	look := min(m.cfg.SilenceLimit/4, 10*time.Second)
	tick := time.NewTicker(look)
	defer tick.Stop()
	watch := newSilenceWatch(time.Now(), look)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if silent := watch.heard(time.Now(), m.group.Silence()); silent > m.cfg.SilenceLimit {
			e := stream.NewError("stay in group", fmt.Errorf("no answer for %v: %w", silent.Round(time.Second), stream.ErrUnreachable))
			e.Group = m.cfg.Session.Group
			m.fail(e.Hinted("look at the brokers and at the network, then start again: what was folded since the last commit is folded again"))
			return
		}
	}
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
