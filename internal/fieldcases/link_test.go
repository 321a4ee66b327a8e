package fieldcases

import (
	"context"
	"encoding/binary"
	"maps"
	"net"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// link is the way of one member to the brokers. It is safe for concurrent use.
type link struct {
	mu      sync.Mutex
	conns   map[*conn]bool
	stopAt  kmsg.Key         // the request at which the member stops; negative: none
	stopped chan struct{}    // closed when the member has stopped
	resumed chan struct{}    // closed when it goes on; nil while it has not stopped
	resets  map[kmsg.Key]int // that are still to come
	met     map[kmsg.Key]int // resets that a request has met
}

func newLink() *link {
	return &link{conns: map[*conn]bool{}, stopAt: -1, stopped: make(chan struct{}), resets: map[kmsg.Key]int{}, met: map[kmsg.Key]int{}}
}

type conn struct {
	net.Conn
	link *link
	done chan struct{}
	once sync.Once
}

func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := l.wait(ctx.Done()); err != nil {
		return nil, ctx.Err()
	}
	up, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: up, link: l, done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	return c, nil
}

// stop has nothing come through from the next request with the key on, which is held itself: as in a
// process that is stopped there. The connections stay open.
func (l *link) stop(at kmsg.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopAt = at
}

// resume has everything come through again, what was held first.
func (l *link) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopAt = -1
	if l.resumed != nil {
		close(l.resumed)
		l.resumed = nil
	}
}

// cut resets all connections, and returns how many there were.
func (l *link) cut() int {
	l.mu.Lock()
	var conns []*conn
	for c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	return len(conns)
}

// reset has the next n requests with the key meet a connection that is reset in place of them.
func (l *link) reset(key kmsg.Key, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resets[key] = n
}

// stormOver reports whether every reset has met a request, and of which keys.
func (l *link) stormOver() (met map[kmsg.Key]int, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, left := range l.resets {
		if left > 0 {
			return nil, false
		}
	}
	return maps.Clone(l.met), true
}

// wait returns when the member is not stopped, or an error when done is.
func (l *link) wait(done <-chan struct{}) error {
	l.mu.Lock()
	resumed := l.resumed
	l.mu.Unlock()
	if resumed == nil {
		return nil
	}
	select {
	case <-resumed:
		return nil
	case <-done:
		return net.ErrClosed
	}
}

func (l *link) asked(key kmsg.Key) (reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key == l.stopAt {
		l.stopAt, l.resumed = -1, make(chan struct{})
		close(l.stopped)
	}
	if l.resets[key] > 0 {
		l.resets[key]--
		l.met[key]++
		return true
	}
	return false
}

// Write gets one whole request at a time: so kgo writes them.
func (c *conn) Write(b []byte) (int, error) {
	if len(b) > 6 && c.link.asked(kmsg.Key(binary.BigEndian.Uint16(b[4:]))) {
		_ = c.Close()
		return 0, syscall.ECONNRESET
	}
	if err := c.link.wait(c.done); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if held := c.link.wait(c.done); held != nil {
		return 0, held
	}
	return n, err
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.link.mu.Lock()
		delete(c.link.conns, c)
		c.link.mu.Unlock()
	})
	return c.Conn.Close()
}
