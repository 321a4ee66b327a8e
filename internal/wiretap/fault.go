package wiretap

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Action is what a Fault does to the requests that it matches, or to their answers.
type Action int

// The actions. A stream that has lost a frame is of no use any more, as Kafka's clients take the next
// answer for the one that is missing: after a drop, that direction of that connection loses everything
// that follows, until the connection ends. The client sees a time-out.
const (
	HoldRequest   Action = iota + 1 // the request waits in the proxy: the broker has not seen it
	HoldResponse                    // the broker has carried the request out, its answer waits in the proxy
	DropRequest                     // the broker never gets the request
	DropResponse                    // the broker carries the request out, the client never learns
	CutOnRequest                    // the connection is reset in place of delivering the request
	CutOnResponse                   // the broker carries the request out, then the connection is reset
	AnswerWith                      // the broker carries the request out, the client gets another answer; see Proxy.Answer and Rewrite
)

var actionNames = [...]string{"", "hold request", "hold response", "drop request", "drop response", "cut on request", "cut on response", "answer with"}

func (a Action) String() string {
	if a < HoldRequest || int(a) >= len(actionNames) {
		return fmt.Sprintf("action %d", int(a))
	}
	return actionNames[a]
}

func (a Action) onRequest() bool { return a == HoldRequest || a == DropRequest || a == CutOnRequest }

// Match says whether a fault applies to a request, or to the answer to it. It is called from the
// goroutines of all connections at once, and must not block.
type Match func(Request) bool

// Any matches every request.
func Any(Request) bool { return true }

// Keys matches requests of the given keys.
func Keys(keys ...kmsg.Key) Match {
	return func(r Request) bool { return slices.Contains(keys, kmsg.Key(r.Key)) }
}

// All matches what every one of ms matches. They are asked in order, and the first that says no ends
// it: put First last.
func All(ms ...Match) Match {
	return func(r Request) bool {
		for _, m := range ms {
			if !m(r) {
				return false
			}
		}
		return true
	}
}

// ClientID matches requests of the client with this id (kgo.ClientID).
func ClientID(id string) Match { return func(r Request) bool { return r.ClientID == id } }

// First matches the first n requests that m matches.
func First(n int, m Match) Match {
	var seen atomic.Int64
	return func(r Request) bool { return m(r) && seen.Add(1) <= int64(n) }
}

// Committing matches an EndTxn request that commits.
func Committing(r Request) bool {
	req, err := r.Decoded()
	if err != nil {
		return false
	}
	end, ok := req.(*kmsg.EndTxnRequest)
	return ok && end.Commit
}

// Fault is an active fault. It ends with Lift.
type Fault struct {
	action Action
	match  Match
	change func(kmsg.Response) error // of AnswerWith
	lift   func()                    // takes the fault out of its proxies

	mu     sync.Mutex
	caught []Request
	grown  chan struct{} // closed, and replaced, when caught grows
	gate   chan struct{} // closed, and replaced, when held frames may go on
	lifted bool
}

func newFault(action Action, match Match) *Fault {
	if action < HoldRequest || action > AnswerWith || match == nil {
		panic(fmt.Sprintf("wiretap: fault with %v and match set %t", action, match != nil))
	}
	return &Fault{action: action, match: match, grown: make(chan struct{}), gate: make(chan struct{})}
}

// catch records a frame and returns the gate that a held one waits for. ok is false when the fault was
// lifted after the connection had looked it up.
func (f *Fault) catch(r Request) (gate <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lifted {
		return nil, false
	}
	f.caught = append(f.caught, r)
	close(f.grown)
	f.grown = make(chan struct{})
	return f.gate, true
}

// Caught returns the requests that the fault has applied to so far, in the order they came.
func (f *Fault) Caught() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.caught)
}

// Await waits until the fault has applied to at least n requests. The error is the cause of ctx.
func (f *Fault) Await(ctx context.Context, n int) error {
	for {
		f.mu.Lock()
		have, grown := len(f.caught), f.grown
		f.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("wiretap: %v: caught %d of %d: %w", f.action, have, n, context.Cause(ctx))
		}
	}
}

// Release lets the frames that are held go on, and keeps holding those that come later.
func (f *Fault) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lifted {
		close(f.gate)
		f.gate = make(chan struct{})
	}
}

// Lift ends the fault and lets held frames go on. Calling it again does nothing. Connections that a
// drop has made useless stay so until they end; Proxy.Cut ends them.
func (f *Fault) Lift() {
	f.lift()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lifted {
		f.lifted = true
		close(f.gate)
	}
}
