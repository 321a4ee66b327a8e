package wiretap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var errNotKafka = errors.New("wiretap: not a plaintext Kafka stream")

// Dial makes a connection to a broker, as net.Dialer.DialContext does.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Proxy forwards the connections it accepts to one broker.
type Proxy struct {
	upstream string
	token    string // that each connection begins with; "": none
	dial     Dial
	listener net.Listener
	ctx      context.Context // ends the dials at Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu            sync.Mutex
	closed        bool
	refuse        bool
	loseRequests  bool
	loseResponses bool
	conns         map[uint64]*conn
	accepted      uint64
	firstErr      error
	// The slices are replaced and never changed, so that a connection can walk one without the lock.
	faults     []*Fault
	onRequest  []*func(Request)
	onResponse []*responseHook
}

type responseHook struct {
	keys []int16 // empty means all
	call func(Request, kmsg.Response)
}

// New returns a proxy on a free loopback port for the broker at upstream, host:port. The caller calls
// Close.
func New(upstream string) (*Proxy, error) {
	return newProxy(upstream, "", (&net.Dialer{}).DialContext)
}

func newProxy(upstream, token string, dial Dial) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wiretap: listen for %s: %w", upstream, err)
	}
	p := &Proxy{upstream: upstream, token: token, dial: dial, listener: l, conns: map[uint64]*conn{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the address that the proxy listens on.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Upstream returns the broker's address.
func (p *Proxy) Upstream() string { return p.upstream }

// Close resets all connections, held ones too, and waits for the proxy's goroutines. Calling it again
// does nothing. It must not be called from an observer.
func (p *Proxy) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	var err error
	if first {
		err = p.listener.Close()
	}
	p.Cut(nil)
	p.wg.Wait()
	return err
}

// Err returns the first frame that could not be understood, or nil. Connections that end, by a fault or
// by themselves, are no errors.
func (p *Proxy) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.firstErr
}

func (p *Proxy) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.firstErr == nil {
		p.firstErr = err
	}
}

// OnRequest calls f for each request, when it has been read whole and before faults apply, until remove
// is called. f runs on the connection's goroutine: while it blocks, that connection waits.
func (p *Proxy) OnRequest(f func(Request)) (remove func()) {
	hook := &f
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onRequest = with(p.onRequest, hook)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.onRequest = without(p.onRequest, hook)
	}
}

// OnResponse calls f for each answer to a request of one of the keys (none given: of any key), when it
// has been read whole and before faults apply, until remove is called. f sees also an answer that the
// client never gets. The response is shared and must not be changed. f runs on the connection's
// goroutine: while it blocks, that connection waits.
func (p *Proxy) OnResponse(f func(Request, kmsg.Response), keys ...kmsg.Key) (remove func()) {
	hook := &responseHook{call: f}
	for _, k := range keys {
		hook.keys = append(hook.keys, int16(k))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onResponse = with(p.onResponse, hook)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.onResponse = without(p.onResponse, hook)
	}
}

// Fault applies action to what match accepts, until the fault is lifted. With several faults that match
// one frame, holds come in the order of their making, and the first drop or cut decides.
func (p *Proxy) Fault(action Action, match Match) *Fault {
	f := newFault(action, match)
	f.lift = func() { p.removeFault(f) }
	p.addFault(f)
	return f
}

// Answer gives clients err in place of the error of the answers to what match accepts, until the fault is
// lifted. The broker has carried the request out, and observers see its own answer. Only answers that have
// one error as a whole can be changed, as that to EndTxn: others end the connection and are told by Err.
func (p *Proxy) Answer(err *kerr.Error, match Match) *Fault {
	f := newFault(AnswerWith, match)
	f.change = refuse(err.Code)
	f.lift = func() { p.removeFault(f) }
	p.addFault(f)
	return f
}

func (p *Proxy) addFault(f *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = with(p.faults, f)
}

func (p *Proxy) removeFault(f *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = without(p.faults, f)
}

// Refuse resets connections as soon as they are accepted, or stops doing so. Open ones stay.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// LoseRequests loses everything that clients send, or stops doing so. When it stops, the connections
// that have lost something are reset: a stream with a gap is of no use.
func (p *Proxy) LoseRequests(on bool) {
	p.mu.Lock()
	p.loseRequests = on
	p.mu.Unlock()
	if !on {
		p.cut(func(c *conn) bool { return c.requests.dead.Load() })
	}
}

// LoseResponses loses everything that the broker sends, or stops doing so, as LoseRequests does.
func (p *Proxy) LoseResponses(on bool) {
	p.mu.Lock()
	p.loseResponses = on
	p.mu.Unlock()
	if !on {
		p.cut(func(c *conn) bool { return c.responses.dead.Load() })
	}
}

// Cut resets the open connections whose client id match accepts, and returns how many. A nil match
// accepts all. The client id is that of the latest request, or empty before the first.
func (p *Proxy) Cut(match func(clientID string) bool) int {
	return p.cut(func(c *conn) bool { return match == nil || match(c.client()) })
}

func (p *Proxy) cut(match func(*conn) bool) int {
	p.mu.Lock()
	var cut []*conn
	for _, c := range p.conns {
		if match(c) {
			cut = append(cut, c)
		}
	}
	p.mu.Unlock()
	for _, c := range cut {
		c.reset()
	}
	return len(cut)
}

// Conns returns the number of open connections.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func (p *Proxy) accept() {
	for {
		down, err := p.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				p.fail(fmt.Errorf("wiretap: accept for %s: %w", p.upstream, err))
			}
			return
		}
		c := p.admit(down)
		if c == nil {
			resetConn(down)
			continue
		}
		p.wg.Go(func() {
			defer p.forget(c)
			if !p.knows(down) {
				resetConn(down)
				return
			}
			c.run(p.ctx)
		})
	}
}

// admit registers a connection, or returns nil when none may come in.
func (p *Proxy) admit(down net.Conn) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.closed {
		return nil
	}
	p.accepted++
	c := &conn{id: p.accepted, p: p, down: down, done: make(chan struct{}), pending: map[int32]Request{}}
	p.conns[c.id] = c
	return c
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c.id)
}

// state returns the faults that apply to a frame at this moment, and whether the frame is lost. What is
// lost marks its direction under the lock:
//
//  1. A connection finds that requests are to be lost.
//  2. LoseRequests(false) resets the connections that are marked, and this one is not yet.
//  3. The connection marks itself, and is dead for good with nobody left to reset it.
func (p *Proxy) state(c *conn, isRequest bool) (faults []*Fault, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir := c.direction(isRequest)
	if isRequest && p.loseRequests || !isRequest && p.loseResponses {
		dir.dead.Store(true)
	}
	return p.faults, dir.dead.Load()
}

func (p *Proxy) observeRequest(r Request) {
	p.mu.Lock()
	hooks := p.onRequest
	p.mu.Unlock()
	for _, f := range hooks {
		(*f)(r)
	}
}

// observeResponse decodes the answer only if somebody wants to see it.
func (p *Proxy) observeResponse(r Request, frame []byte) {
	p.mu.Lock()
	hooks := p.onResponse
	p.mu.Unlock()
	var resp kmsg.Response
	for _, h := range hooks {
		if len(h.keys) > 0 && !slices.Contains(h.keys, r.Key) {
			continue
		}
		if resp == nil {
			var err error
			if resp, err = r.decodeResponse(frame); err != nil {
				p.fail(err)
				return
			}
		}
		h.call(r, resp)
	}
}

func with[T comparable](s []T, v T) []T { return append(slices.Clone(s), v) }

func without[T comparable](s []T, v T) []T {
	return slices.DeleteFunc(slices.Clone(s), func(x T) bool { return x == v })
}
