//go:build synctests

package virtual

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// link is the way of one process to the brokers. Faults are put on it, and each process has its own. It
// is safe for concurrent use.
type link struct {
	net *kfake.VirtualNetwork
	wg  sync.WaitGroup // of requests that are delivered late

	mu     sync.Mutex
	rand   *rand.Rand
	delay  time.Duration              // the longest that a request takes to leave
	slow   map[kmsg.Key]time.Duration // how long answers to some requests take
	narrow int                        // bytes of produce requests that get through in a second, 0: any number
	conns  map[*conn]bool             // those that are open
	faults map[string]outage          // by address of a broker; "": all of them
	frames []*frameFault
	cuts   map[kmsg.Key]chan struct{} // by the request at which its broker falls silent
	healed chan struct{}              // closed, and replaced, when an outage ends
	seen   map[string]int
	gone   bool // the process was killed

	stalled time.Time // until then
}

// refusalTakes is how long a broker that is not there takes to refuse a connection.
const refusalTakes = 10 * time.Millisecond

// writeLimit is how long the client lets the write of a request take (kgo.RequestTimeoutOverhead).
const writeLimit = 10 * time.Second

// outage is what keeps a process from a broker.
type outage int

const (
	refusing outage = iota + 1 // connections are reset, and none is made
	silent                     // connections stay open, and nothing comes through
)

// frameFault is what happens to one request, or to the answer to it.
type frameFault struct {
	key  kmsg.Key
	kind frameKind
	late time.Duration // for late
}

type frameKind int

const (
	answerLost   frameKind = iota // the broker carries the request out, then the connection is reset
	requestLost                   // the connection is reset in place of delivering it
	late                          // the connection is reset, and the broker gets the request later, from it
	stalls                        // from it on nothing of the process moves for longer than its session, and then all does
	answerFenced                  // the broker carries it out, and the answer is a producer fence (EndTxn alone)
)

var frameKinds = [...]string{"answer lost", "request lost", "delivered late", "stalls", "answered with a fence"}

func (k frameKind) String() string { return frameKinds[k] }

func newLink(n *kfake.VirtualNetwork, seed uint64, delay time.Duration) *link {
	return &link{
		net: n, rand: rand.New(rand.NewPCG(seed, 77)), delay: delay, conns: map[*conn]bool{},
		faults: map[string]outage{}, cuts: map[kmsg.Key]chan struct{}{}, healed: make(chan struct{}), seen: map[string]int{},
	}
}

// Dial makes a connection, for kgo.Dialer. It gives up as the client's own dialer does.
func (l *link) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		l.mu.Lock()
		state, healed := l.stateLocked(addr), l.healed
		l.mu.Unlock()
		switch state {
		case refusing:
			// As long as a packet takes to come back. A client that is refused may ask again at once (kgo does,
			// for AddPartitionsToTxn), and virtual time would stand still.
			select {
			case <-time.After(refusalTakes):
			case <-ctx.Done():
			}
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		case silent:
			select {
			case <-healed:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		up, err := l.net.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: up, link: l, addr: addr, asked: map[int32]asked{}}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.stateLocked(addr) != 0 { // meanwhile
			up.Close()
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNRESET)}
		}
		l.conns[c] = true
		return c, nil
	}
}

func (l *link) stateLocked(addr string) outage {
	if l.gone {
		return refusing
	}
	if s := l.faults[""]; s != 0 {
		return s
	}
	return l.faults[addr]
}

// cut begins an outage to the broker at addr, "" for all.
func (l *link) cut(addr string, o outage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults[addr] = o
	if o == refusing {
		l.resetLocked(func(c *conn) bool { return addr == "" || c.addr == addr })
	}
}

// cutAt has the broker that the next request of a key goes to fall silent at it. The request itself is the
// first that does not come through. What is returned is closed when it was on its way.
func (l *link) cutAt(key kmsg.Key) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts[key] = make(chan struct{})
	return l.cuts[key]
}

// silenceLocked carries cutAt out. A broker is reached under the name that a client begins with, and under
// the one that the broker tells.
func (l *link) silenceLocked(key kmsg.Key, addr string) {
	met, ok := l.cuts[key]
	if !ok {
		return
	}
	delete(l.cuts, key)
	_, port, _ := net.SplitHostPort(addr)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		l.faults[net.JoinHostPort(host, port)] = silent
	}
	close(met)
}

// heal ends all outages, and resets connections that have lost something: a stream with a gap is of no
// use.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.faults)
	close(l.healed)
	l.healed = make(chan struct{})
	l.resetLocked(func(c *conn) bool { return c.lossy })
}

// setSlow has answers to a request take as long.
func (l *link) setSlow(key kmsg.Key, takes time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = map[kmsg.Key]time.Duration{key: takes}
}

// kill is the end of the process, as far as the brokers can see.
func (l *link) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	close(l.healed)
	l.healed = make(chan struct{})
	l.resetLocked(func(*conn) bool { return true })
}

func (l *link) resetLocked(which func(*conn) bool) {
	for c := range l.conns {
		if which(c) {
			delete(l.conns, c)
			c.reset = true
			c.Conn.Close()
		}
	}
}

// arm has the next request of a key, or its answer, meet a fault.
func (l *link) arm(f frameFault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames = append(l.frames, &f)
}

// disarm takes back what has not met a request yet.
func (l *link) disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames = nil
}

// takeLocked takes the armed fault for a request.
func (l *link) takeLocked(key kmsg.Key) *frameFault {
	for i, f := range l.frames {
		if f.key == key {
			l.frames = append(l.frames[:i:i], l.frames[i+1:]...)
			l.seen[fmt.Sprintf("%s %v", key.Name(), f.kind)]++
			return f
		}
	}
	return nil
}

// bitten returns how often each fault has met a request.
func (l *link) bitten() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// close waits for what is delivered late.
func (l *link) close() { l.wg.Wait() }

// asked is a request whose answer has not come.
type asked struct {
	key   kmsg.Key
	fault *frameFault
}

// conn is one connection of a process. The client writes each request with one Write, and reads from one
// goroutine.
type conn struct {
	net.Conn
	link *link
	addr string
	rest []byte // of an answer that was read in part; the reader's alone

	// Guarded by the link.
	asked   map[int32]asked
	lossy   bool // something was lost: nothing comes through any more
	reset   bool // by a fault
	lingers bool // a request is delivered after the client has closed it
}

var errReset = &net.OpError{Op: "read", Net: "virtual", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

func (c *conn) Write(b []byte) (int, error) {
	if len(b) < 12 {
		return c.Conn.Write(b)
	}
	key, id := kmsg.Key(int16(binary.BigEndian.Uint16(b[4:]))), int32(binary.BigEndian.Uint32(b[8:]))
	c.link.mu.Lock()
	var wait time.Duration
	if c.link.delay > 0 {
		wait = time.Duration(c.link.rand.Int64N(int64(c.link.delay)))
	}
	if c.link.narrow > 0 && key == kmsg.Produce {
		wait += time.Duration(len(b)) * time.Second / time.Duration(c.link.narrow)
	}
	c.link.mu.Unlock()
	time.Sleep(min(wait, writeLimit))
	if wait > writeLimit {
		c.Close()
		return 0, &net.OpError{Op: "write", Net: "virtual", Err: os.ErrDeadlineExceeded}
	}
	c.link.mu.Lock()
	c.link.silenceLocked(key, c.addr)
	if c.link.stateLocked(c.addr) == silent {
		c.lossy = true
	}
	lost, f := c.lossy, (*frameFault)(nil)
	if !lost {
		f = c.link.takeLocked(key)
		c.asked[id] = asked{key, f}
	}
	if f != nil && f.kind == late {
		c.lingers = true
	}
	if f != nil && f.kind == stalls {
		c.link.stalled = time.Now().Add(session + f.late)
	}
	c.link.mu.Unlock()
	c.link.standstill()
	switch {
	case lost:
		return len(b), nil
	case f == nil:
	case f.kind == requestLost:
		c.Close()
		return 0, errReset
	case f.kind == late:
		if err := c.Conn.SetReadDeadline(time.Now()); err != nil { // the client's reader ends
			return 0, err
		}
		c.deliverLate(append([]byte(nil), b...), f.late)
		return 0, errReset
	}
	n, err := c.Conn.Write(b)
	return n, c.explained(err)
}

// standstill waits for the end of a stall.
func (l *link) standstill() {
	for {
		l.mu.Lock()
		left := time.Until(l.stalled)
		if l.gone || left <= 0 {
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		time.Sleep(left)
	}
}

// explained is the error of a connection that a fault has reset: that of TCP, and not that of a pipe,
// which a client takes for a mistake of its own.
func (c *conn) explained(err error) error {
	if !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, io.EOF) {
		return err
	}
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.reset {
		return errReset
	}
	return err
}

// deliverLate has the broker get a request that the client has given up, and waits for the answer, which
// nobody reads.
func (c *conn) deliverLate(b []byte, after time.Duration) {
	c.link.wg.Go(func() {
		defer c.Conn.Close()
		time.Sleep(after)
		if err := c.Conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return
		}
		if _, err := c.Conn.Write(b); err == nil {
			_, _ = readFrame(c.Conn) // the answer has nowhere to go
		}
	})
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 256<<20 {
		return nil, errors.New("the frame is no frame")
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// given reports whether the client has given the connection up for a late delivery.
func (c *conn) given() bool {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.lingers
}

// SetReadDeadline leaves a connection alone that is kept for a late delivery.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.given() {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline leaves a connection alone that is kept for a late delivery.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if c.given() {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.given() {
			return 0, errReset
		}
		frame, err := readFrame(c.Conn)
		if err != nil {
			return 0, c.explained(err)
		}
		if len(frame) < 8 {
			return 0, errReset
		}
		var wait time.Duration
		if c.rest, wait, err = c.answer(frame); err != nil {
			c.Close()
			return 0, err
		}
		if wait > 0 {
			time.Sleep(wait)
		}
		c.link.standstill()
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// answer applies the faults to an answer, and says how long it takes: nil is one that is lost.
func (c *conn) answer(frame []byte) ([]byte, time.Duration, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	id := int32(binary.BigEndian.Uint32(frame[4:]))
	a := c.asked[id]
	delete(c.asked, id)
	if c.link.stateLocked(c.addr) == silent {
		c.lossy = true
	}
	switch {
	case c.lossy:
		return nil, 0, nil
	case a.fault == nil:
	case a.fault.kind == answerLost:
		return nil, 0, errReset
	case a.fault.kind == answerFenced && a.key == kmsg.EndTxn && len(frame) >= 15:
		// Length, correlation id, an empty section of tags and the throttle time stand before the code.
		binary.BigEndian.PutUint16(frame[13:], 47) // INVALID_PRODUCER_EPOCH
	}
	return frame, c.link.slow[a.key], nil
}

func (c *conn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	lingers := c.lingers
	c.link.mu.Unlock()
	if lingers {
		return nil
	}
	return c.Conn.Close()
}
