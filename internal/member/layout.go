package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	// lookEvery is the time between two looks at the layout of the input while nothing is committed.
	lookEvery = 2 * time.Second
	// askAnother is how long a look waits for a broker before it asks another one as well: one that is stopped
	// would hold up a third of the commits on a cluster of three.
	askAnother = 500 * time.Millisecond
	// askedAtOnce bounds how many are asked.
	askedAtOnce = 3
	// strangeFor is for how long the input may be unknown, or another topic, before that is left to those who
	// fetch from it and commit to it.
	strangeFor = 2 * time.Second
)

// layout finds out whether the input of a component with state still has the partitions that its states were
// folded from (R31). It is for all partitions of a member together.
//
// Which keys are in a partition follows from how many there are. From the moment that one is added on, records of
// a key can come to another partition than those before them, and a fold would begin an empty state for it. What
// is to be committed was fetched before, so that a look that begins after that, and finds no partition more,
// shows that no producer had heard of one when it wrote what was folded, unless the broker that is asked has
// heard of it later than the one which the producer had asked.
type layout struct {
	ask   func(context.Context) (wire.Layout, error)
	input wire.Facts // as it was at the start
	limit time.Duration
	ctx   context.Context // of all looks
	wg    *sync.WaitGroup // waits for them

	mu      sync.Mutex
	running *look
	next    *look // for those who came when the running one had begun; begins at its end
}

// look is one look, whoever waits for it.
type look struct {
	done chan struct{} // closed when err is set
	err  error
}

// unchanged returns nil when a look that begins after the call has found the layout that was there at the start. It
// returns ErrInputChanged if it has not, ErrUnreachable if no broker tells, or the cause of ctx.
func (l *layout) unchanged(ctx context.Context) error {
	if l == nil {
		return nil // there is no state
	}
	mine := l.join()
	select {
	case <-mine.done:
		if e, ok := errors.AsType[*stream.Error](mine.err); ok {
			own := *e // each says where it was met
			return &own
		}
		return mine.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join returns a look that has not begun.
func (l *layout) join() *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &look{done: make(chan struct{})}
	}
	mine := l.next
	if l.running == nil {
		l.beginLocked()
	}
	return mine
}

func (l *layout) beginLocked() {
	l.running, l.next = l.next, nil
	if l.running == nil {
		return
	}
	now := l.running
	l.wg.Go(func() {
		now.err = l.compare(l.ctx)
		close(now.done)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.beginLocked()
	})
}

// compare asks until a broker has answered that knows the input as it was at the start, or later.
func (l *layout) compare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	began := time.Now()
	for {
		told, err := l.told(ctx)
		same := told.Exists && told.ID == l.input.ID
		switch {
		case ctx.Err() != nil:
			return stream.NewError("check input", fmt.Errorf("no broker tells how many partitions it has, for %v: %w", l.limit, stream.ErrUnreachable)).
				Hinted("look at the brokers: nothing is committed before one has told")
		case err != nil && !wire.Passes(err):
			return err
		case err == nil && same && told.Partitions > l.input.Partitions:
			return wire.KeysMoved(l.input.Topic, l.input.Partitions, told.Partitions)
		case err == nil && same && told.Partitions == l.input.Partitions:
			return nil
		case err == nil && !same && time.Since(began) >= strangeFor:
			return nil // it was deleted, or made again: fetches and commits find that out by its id
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// told is the first answer of up to askedAtOnce brokers.
func (l *layout) told(ctx context.Context) (wire.Layout, error) {
	type answer struct {
		layout wire.Layout
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	answers := make(chan answer, askedAtOnce)
	for n := 1; ; n++ {
		if n <= askedAtOnce {
			asked.Go(func() {
				told, err := l.ask(ctx)
				answers <- answer{told, err}
			})
		}
		select {
		case a := <-answers:
			return a.layout, a.err
		case <-time.After(askAnother):
		case <-ctx.Done():
			return wire.Layout{}, context.Cause(ctx)
		}
	}
}

// newLayout returns the layout of a component with state, nil for one without, of which no key is at home in a
// partition.
func (m *Member) newLayout() *layout {
	if m.cfg.Map != nil {
		return nil
	}
	input := m.cfg.Inputs[0]
	return &layout{
		ask:   func(ctx context.Context) (wire.Layout, error) { return wire.TopicLayout(ctx, m.admin, input.Topic) },
		input: input, limit: cmp.Or(m.cfg.TransactionTimeout, fence.MaxTransactionTimeout), ctx: m.ctx, wg: &m.wg,
	}
}

// watchLayout stops the member when the input has got partitions. The client would hear of them with its next
// metadata, after some minutes.
func (m *Member) watchLayout(ctx context.Context) {
	if m.layout == nil {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := m.layout.unchanged(ctx)
		if e, ok := errors.AsType[*stream.Error](err); ok && wire.AreKeysMoved(err) {
			e.Topic, e.Group = m.layout.input.Topic, m.cfg.Session.Group
			m.fail(e)
			return
		}
	}
}
