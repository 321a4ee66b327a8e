package wiretap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// conn is one client's connection and the one to the broker that belongs to it.
type conn struct {
	id   uint64
	p    *Proxy
	down net.Conn // to the client
	up   net.Conn // to the broker; guarded by mu until run has set it

	requests, responses direction

	mu       sync.Mutex
	pending  map[int32]Request // sent to the broker, by correlation id
	clientID string
	gone     bool // nothing more comes from the client
	ended    bool
	done     chan struct{} // closed by reset
}

// direction is one way through the proxy.
type direction struct {
	dead atomic.Bool // a frame was lost: so is everything after it
}

func (c *conn) direction(isRequest bool) *direction {
	if isRequest {
		return &c.requests
	}
	return &c.responses
}

func (c *conn) client() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clientID
}

// run forwards both ways and returns when both have ended.
func (c *conn) run(ctx context.Context) {
	defer c.reset()
	up, err := c.p.dial(ctx, "tcp", c.p.upstream)
	if err != nil {
		return // the client sees a reset, as it would from a broker that is down
	}
	c.mu.Lock()
	c.up = up
	ended := c.ended
	c.mu.Unlock()
	if ended { // cut while dialling: the reset could not close what was not there yet
		up.Close()
		return
	}
	var wg sync.WaitGroup
	wg.Go(c.forwardRequests)
	wg.Go(c.forwardResponses)
	wg.Wait()
}

// reset ends the connection: the client sees a reset, the broker an ordinary end. Held frames are lost.
func (c *conn) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	close(c.done)
	resetConn(c.down)
	if c.up != nil {
		c.up.Close()
	}
}

// resetConn closes with a TCP reset, so that the other side sees an error at once, also with data in
// flight.
func resetConn(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		// An error means that the connection is gone already, which is what is wanted.
		_ = t.SetLinger(0)
	}
	c.Close()
}

func (c *conn) forwardRequests() {
	for {
		frame, err := readFrame(c.down)
		if err != nil {
			c.end(err)
			return
		}
		r, err := parseRequest(frame, c.id, c.p.upstream)
		if err != nil {
			c.end(err)
			return
		}
		c.sent(r)
		c.p.observeRequest(r)
		if frame = c.pass(r, true, frame); frame == nil {
			continue
		}
		if _, err := c.up.Write(frame); err != nil {
			c.reset()
			return
		}
	}
}

// end is called when nothing more can be read from the client. The broker's side stays open while an
// answer is outstanding, so that a request which was held while its client went away is still carried
// out when it is released, as one that a network has delayed would be:
//
//  1. The proxy holds an EndTxn, and the client closes its connection.
//  2. The request is released and written to the broker, and the next read finds the client gone.
//  3. A close right behind the request can reach the broker before it has looked at the request, and
//     the broker drops both.
func (c *conn) end(err error) {
	if errors.Is(err, errNotKafka) {
		c.p.fail(fmt.Errorf("connection %d to %s: %w", c.id, c.p.upstream, err))
		c.reset()
		return
	}
	c.mu.Lock()
	c.gone = true
	idle := len(c.pending) == 0
	c.mu.Unlock()
	if idle {
		c.reset()
	}
}

func (c *conn) forwardResponses() {
	defer c.reset()
	for {
		frame, err := readFrame(c.up)
		if err != nil {
			if errors.Is(err, errNotKafka) {
				c.p.fail(fmt.Errorf("connection %d from %s: %w", c.id, c.p.upstream, err))
			}
			return
		}
		id := int32(binary.BigEndian.Uint32(frame[4:]))
		r, known := c.took(id)
		if !known {
			c.p.fail(fmt.Errorf("connection %d from %s: %w: answer to unknown correlation id %d", c.id, c.p.upstream, errNotKafka, id))
			return
		}
		c.p.observeResponse(r, frame)
		if frame = c.pass(r, false, frame); frame != nil {
			if _, err := c.down.Write(frame); err != nil {
				// The client has gone, which forwardRequests finds out. Later answers have nowhere to go,
				// but the broker is to carry their requests out.
				c.responses.dead.Store(true)
			}
		}
		if c.finished() {
			return
		}
	}
}

// sent notes a request before it goes to the broker, so that its answer always finds it.
func (c *conn) sent(r Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clientID = r.ClientID
	if r.answered() {
		c.pending[r.CorrelationID] = r
	}
}

func (c *conn) took(id int32) (Request, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.pending[id]
	delete(c.pending, id)
	return r, ok
}

// finished reports whether the client has gone and no answer is outstanding.
func (c *conn) finished() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone && len(c.pending) == 0
}

// pass applies the faults to a frame and returns what goes on: nil, if nothing does.
func (c *conn) pass(r Request, isRequest bool, frame []byte) []byte {
	faults, lost := c.p.state(c, isRequest)
	if lost {
		return nil
	}
	for _, f := range faults {
		if f.action.onRequest() != isRequest || !f.match(r) {
			continue
		}
		gate, ok := f.catch(r)
		if !ok {
			continue
		}
		switch f.action {
		case HoldRequest, HoldResponse:
			select {
			case <-gate:
			case <-c.done:
				return nil
			}
		case DropRequest, DropResponse:
			c.direction(isRequest).dead.Store(true)
			return nil
		case CutOnRequest, CutOnResponse:
			c.reset()
			return nil
		case AnswerWith:
			changed, err := r.answeredWith(frame, f.change)
			if err != nil {
				c.p.fail(err)
				c.reset()
				return nil
			}
			frame = changed
		}
	}
	return frame
}
