package fence

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// gate stands on every connection of one transactional client and lets no InitProducerID out before
// allow has said yes (R4). It sits there, and not around the client's calls, because the client
// sends InitProducerID by itself: again and again while the broker answers CONCURRENT_TRANSACTIONS,
// after a transport error, and from its own recovery.
//
// It also counts the commits that go out, since the client's word for one is not enough (see txn.end).
type gate struct {
	allow   func(context.Context) error
	commits atomic.Int64 // EndTxn requests that commit

	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	sealed  bool
	err     error
	refused chan struct{} // closed by the first refusal; the client is of no use after it
}

func newGate(ctx context.Context, allow func(context.Context) error) *gate {
	g := &gate{allow: allow, refused: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// errSealed: the client wanted to initialise the id again by itself.
var errSealed = errors.New("the client wants to initialise its id again, which only a takeover may")

// seal lets no InitProducerID out any more. It is called when the takeover's own has succeeded: one
// that the client sends later, to mend what it takes for a passing fault, would be a takeover that
// nothing is read back after.
func (g *gate) seal() {
	g.mu.Lock()
	g.sealed = true
	g.mu.Unlock()
}

// close ends every wait at the gate. Nothing passes after it.
func (g *gate) close() { g.cancel() }

// refusal is the cause of the first refusal.
func (g *gate) refusal() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

func (g *gate) admit(ctx context.Context) error {
	g.mu.Lock()
	refusal, sealed := g.err, g.sealed
	g.mu.Unlock()
	if refusal != nil {
		return refusal
	}
	err := errSealed
	if !sealed {
		err = g.allow(ctx)
	}
	if err == nil {
		return ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil && ctx.Err() == nil { // a wait that was ended is no answer
		g.err = err
		close(g.refused)
	}
	return err
}

func (g *gate) wrap(c net.Conn) net.Conn {
	ctx, cancel := context.WithCancel(g.ctx)
	return &gatedConn{Conn: c, gate: g, ctx: ctx, cancel: cancel}
}

// gatedConn is one connection behind the gate. The client writes each request with one Write.
type gatedConn struct {
	net.Conn
	gate   *gate
	ctx    context.Context
	cancel context.CancelFunc
}

var initKey, endKey = int16(kmsg.InitProducerID), int16(kmsg.EndTxn)

// errGate wraps what the gate says, so that the client does not take it for a network error that is
// worth a retry.
type errGate struct{ err error }

func (e errGate) Error() string { return "InitProducerID was held back: " + e.err.Error() }
func (e errGate) Unwrap() error { return e.err }

func (c *gatedConn) Write(b []byte) (int, error) {
	// A frame is its size in 4 bytes, then the request's key in 2.
	if len(b) >= 6 && int16(binary.BigEndian.Uint16(b[4:])) == initKey {
		if err := c.gate.admit(c.ctx); err != nil {
			return 0, errGate{err}
		}
	}
	if isCommit(b) {
		c.gate.commits.Add(1)
	}
	return c.Conn.Write(b)
}

// isCommit reports whether a frame is an EndTxn that commits. Behind size and key are the version in 2 bytes, the
// correlation id in 4, the client's id behind its length in 2, and in flexible versions the tags, of which there are none.
func isCommit(b []byte) bool {
	if len(b) < 14 || int16(binary.BigEndian.Uint16(b[4:])) != endKey {
		return false
	}
	req := kmsg.NewPtrEndTxnRequest()
	req.SetVersion(int16(binary.BigEndian.Uint16(b[6:])))
	body := 14 + max(int(int16(binary.BigEndian.Uint16(b[12:]))), 0)
	if req.IsFlexible() {
		body++
	}
	return body <= len(b) && req.ReadFrom(b[body:]) == nil && req.Commit
}

// Close ends a wait at the gate, so that closing the client never hangs on it.
func (c *gatedConn) Close() error {
	c.cancel()
	return c.Conn.Close()
}

// gateError finds what the gate said in an error of the client.
func gateError(err error) (error, bool) {
	if e, ok := errors.AsType[errGate](err); ok {
		return e.err, true
	}
	return nil, false
}
