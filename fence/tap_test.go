package fence

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/kafka"
)

// fate is what happens to one request.
type fate int

const (
	pass     fate = iota
	cut           // it never leaves, the connection breaks
	swallow       // it never leaves, and nobody is told
	loseIt        // it is carried out, and the connection breaks when the answer comes
	holdBack      // it is carried out, and the answer waits for tap.release
)

// tap is a network that a test can break by request.
type tap struct {
	mu       sync.Mutex
	judge    func(key kmsg.Key) fate
	seen     map[kmsg.Key]int
	released chan struct{}
}

func newTap() *tap { return &tap{seen: map[kmsg.Key]int{}, released: make(chan struct{})} }

// config returns k with connections that go through the tap.
func (n *tap) config(k kafka.Config) *kafka.Config {
	k.Opts = append(k.Opts, kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, host)
		if err != nil {
			return nil, err
		}
		return &tappedConn{Conn: c, tap: n}, nil
	}))
	return &k
}

func (n *tap) set(judge func(kmsg.Key) fate) {
	n.mu.Lock()
	n.judge = judge
	n.mu.Unlock()
}

func (n *tap) count(key kmsg.Key) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[key]
}

// release lets held answers go, and those that come.
func (n *tap) release() { close(n.released) }

type tappedConn struct {
	net.Conn
	tap  *tap
	mu   sync.Mutex
	next fate // of the next answer
}

var errTap = errors.New("the test cut the connection")

func (c *tappedConn) Write(b []byte) (int, error) {
	f := pass
	if len(b) >= 6 {
		key := kmsg.Key(binary.BigEndian.Uint16(b[4:]))
		c.tap.mu.Lock()
		c.tap.seen[key]++
		judge := c.tap.judge
		c.tap.mu.Unlock()
		if judge != nil {
			f = judge(key)
		}
	}
	switch f {
	case cut:
		c.Conn.Close()
		return 0, errTap
	case swallow:
		return len(b), nil
	case loseIt, holdBack:
		c.mu.Lock()
		c.next = f
		c.mu.Unlock()
	case pass:
	}
	return c.Conn.Write(b)
}

func (c *tappedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	f := c.next
	c.mu.Unlock()
	switch {
	case err != nil:
	case f == loseIt:
		c.Conn.Close()
		return 0, errTap
	case f == holdBack:
		<-c.tap.released
	}
	return n, err
}
