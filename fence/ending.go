package fence

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// ending ends what a Group owns when its client is closed, on whatever way that comes about. The client
// does not take back all that it has given (R24):
//
//  1. A heartbeat under KIP-848 is answered with an assignment without partition 2: the client forgets the
//     partition at once, and means to call revoked for it with its next session.
//  2. The session before is still in its assigned callback, or the coordinator is out of reach.
//  3. The client is closed. It calls revoked for what it still knows of, and leaves.
//
// Nothing would end the ownership of 2 then.
type ending struct{ g *Group }

// OnClientClosed implements kgo.HookClientClosed.
func (e ending) OnClientClosed(*kgo.Client) { e.g.endAll() }

// endAll ends and releases what is owned, callbacks under way included, and makes those to come do nothing.
func (g *Group) endAll() {
	g.shut()
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.calls.Wait() // what they have granted is released after assigned has returned for it
	each(g.takeAll(), func(o *Ownership) {
		o.Lose(fmt.Errorf("the client was closed and has not taken the partition back: %w", stream.ErrOwnershipLost))
		g.release(o, true)
	})
}

// enter begins a callback, unless the Group is closed. Whoever enters calls calls.Done.
func (g *Group) enter() bool {
	<-g.ready
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.calls.Add(1)
	g.under++
	return true
}

// exit ends a callback.
func (g *Group) exit() {
	g.mu.Lock()
	g.under--
	g.mu.Unlock()
	g.calls.Done()
	select {
	case g.exited <- struct{}{}:
	default:
	}
}

// leave leaves the group, in which what is held is drained. From then on brokers that are silent have
// leaveLimit: the client itself would ask them as long as it tries any request.
func (g *Group) leave(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var limit sync.WaitGroup
	limit.Go(func() {
		g.awaitReleased(ctx)
		after := time.NewTimer(leaveLimit)
		defer after.Stop()
		select {
		case <-after.C:
			cancel()
		case <-ctx.Done():
		}
	})
	g.client.AllowRebalance()
	_ = g.client.LeaveGroupContext(ctx) // what was not told, the group finds out
	cancel()
	limit.Wait()
}

// awaitReleased waits until no callback is under way and nothing that is owned can commit any more.
func (g *Group) awaitReleased(ctx context.Context) {
	for {
		wait := g.exited
		g.mu.Lock()
		var held <-chan struct{}
		for _, o := range g.owned {
			if o.State() != Gone {
				held = o.Gone()
			}
		}
		under := g.under
		g.mu.Unlock()
		switch {
		case under == 0 && held == nil:
			return
		case under > 0:
			held = nil
		default:
			wait = nil
		}
		select {
		case <-wait:
		case <-held:
		case <-ctx.Done():
			return
		}
	}
}

// release has the caller release o, which is gone afterwards, also where the caller's function panics or ends
// its goroutine.
func (g *Group) release(o *Ownership, lost bool) {
	defer o.Lose(nil)
	g.released(o, lost)
}

// mayGrant reports whether partitions are still granted: not once the Group closes, and not in a generation of
// another protocol than the caller counts on.
func (g *Group) mayGrant() bool {
	select {
	case <-g.granting.Done():
		return false
	case <-g.session.fellBack:
		return false
	default:
		return true
	}
}

// takeAll removes all that is assigned and returns the ownerships.
func (g *Group) takeAll() []*Ownership {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.Collect(maps.Values(g.owned))
	clear(g.owned)
	return all
}
