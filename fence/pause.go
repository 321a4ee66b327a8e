package fence

import (
	"context"
	"time"
)

const (
	pauseLeast = 1 * time.Millisecond
	pauseMost  = 5 * time.Millisecond
	pauseStep  = 250 * time.Microsecond
	// heldBack is the time from begin to the first acknowledgement from which a produce counts as
	// held by the broker. A 4.x broker holds one for 20 ms that comes before the markers of the
	// transaction before it are written; an unhindered one takes 1 to 9 ms.
	heldBack = 15 * time.Millisecond
	// calmAfter is the number of unhindered transactions after which the pause shrinks by a step.
	calmAfter = 16
)

// pacer keeps a short pause between the end of a transaction and the first produce of the next
// (R11), as short as the broker's markers allow: back to back costs 20 ms a transaction.
type pacer struct {
	pause time.Duration
	ended time.Time // zero: no transaction has ended that the next one could run into
	calm  int
}

func newPacer() *pacer { return &pacer{pause: pauseLeast} }

// wait returns when the next transaction may begin, or when ctx ends.
func (p *pacer) wait(ctx context.Context) {
	if p.ended.IsZero() {
		return
	}
	left := p.pause - time.Since(p.ended)
	if left <= 0 {
		return
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// end notes that a transaction has ended.
func (p *pacer) end() { p.ended = time.Now() }

// saw adapts the pause. idle is the time between the last end and this begin, ack the time from this
// begin to the first acknowledgement. Transactions that began long after the last end say nothing.
func (p *pacer) saw(idle, ack time.Duration) {
	switch {
	case p.ended.IsZero() || idle > 2*pauseMost:
	case ack >= heldBack:
		p.pause = min(2*p.pause, pauseMost)
		p.calm = 0
	default:
		if p.calm++; p.calm >= calmAfter {
			p.pause = max(p.pause-pauseStep, pauseLeast)
			p.calm = 0
		}
	}
}
