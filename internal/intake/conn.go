package intake

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Client is what all connections of one client share. It is a hook of the client: see kgo.WithHooks.
type Client struct {
	budget   *Budget
	consumes atomic.Bool // the client fetches by itself, and takes apart what comes
}

// NewClient returns the intake of a client with a budget.
func NewClient(b *Budget) *Client { return &Client{budget: b} }

// OnNewClient is called by kgo.
func (c *Client) OnNewClient(cl *kgo.Client) { c.consumes.Store(consumes(cl)) }

// consumes reports whether a client fetches for its own polls.
func consumes(cl *kgo.Client) bool {
	if group, _ := cl.OptValue(kgo.ConsumerGroup).(string); group != "" {
		return true
	}
	topics, _ := cl.OptValue(kgo.ConsumeTopics).([]string)
	partitions, _ := cl.OptValue(kgo.ConsumePartitions).(map[string]map[int32]kgo.Offset)
	return len(topics) > 0 || len(partitions) > 0
}

// Of returns the budget of a client; nil: it was made without one.
func Of(cl *kgo.Client) *Budget {
	hooks, _ := cl.OptValue(kgo.WithHooks).([]kgo.Hook)
	for _, h := range hooks {
		if c, ok := h.(*Client); ok {
			return c.budget
		}
	}
	return nil
}

// Conn returns a connection that is read and written in the place of inner, which has plain Kafka frames.
func (c *Client) Conn(inner net.Conn) net.Conn {
	return &conn{Conn: inner, client: c, in: bufio.NewReader(inner), fetches: map[int32]int16{}}
}

// conn looks into the answers to fetches. One goroutine reads and one writes.
type conn struct {
	net.Conn
	client *Client
	in     *bufio.Reader

	out  [][]byte // what is read next
	pass int      // bytes of the present frame that are read as they come, after out
	err  error

	mu      sync.Mutex
	frame   int             // bytes of the frame being written that are still to come
	fetches map[int32]int16 // versions of the fetches that wait for an answer, by correlation id
	page    *page           // that the client was handed last
}

// The beginning of a request: size, key, version, correlation id.
const requestHead = 12

// keyFetch is the request key of Fetch.
const keyFetch = 1

// Write implements net.Conn. The client writes each request at once.
func (c *conn) Write(p []byte) (int, error) {
	c.sent(p)
	return c.Conn.Write(p)
}

func (c *conn) sent(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 {
		if c.frame > 0 {
			n := min(c.frame, len(p))
			c.frame, p = c.frame-n, p[n:]
			continue
		}
		if len(p) < requestHead {
			return // no request
		}
		if binary.BigEndian.Uint16(p[4:]) == keyFetch {
			c.fetches[int32(binary.BigEndian.Uint32(p[8:]))] = int16(binary.BigEndian.Uint16(p[6:]))
			c.client.budget.taken(c.page) // the client asks for more when it has taken what it was given
			c.page = nil
		}
		c.frame = 4 + int(binary.BigEndian.Uint32(p))
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	c.client.budget.taken(c.page)
	c.page = nil
	c.mu.Unlock()
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.out) == 0 && c.pass == 0 && c.err == nil {
		c.err = c.next()
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case len(c.out) > 0:
		n := copy(p, c.out[0])
		if c.out[0] = c.out[0][n:]; len(c.out[0]) == 0 {
			c.out[0] = nil
			c.out = c.out[1:]
		}
		return n, nil
	}
	n, err := c.in.Read(p[:min(len(p), c.pass)])
	c.pass -= n
	return n, err
}

// next reads the beginning of an answer, and all of it if it is one to a fetch.
func (c *conn) next() error {
	head := make([]byte, 8)
	if n, err := io.ReadFull(c.in, head); n > 0 && err != nil {
		c.out = [][]byte{head[:n]} // as an alert of TLS, which the client explains
		return nil
	} else if err != nil {
		return err
	}
	size := int(int32(binary.BigEndian.Uint32(head)))
	if size < 4 { // the client says what is wrong with it
		c.out = [][]byte{head}
		return nil
	}
	version, fetch := c.asked(int32(binary.BigEndian.Uint32(head[4:])))
	if !fetch {
		c.out, c.pass = [][]byte{head}, size-4
		return nil
	}
	a := answer{
		in: &io.LimitedReader{R: c.in, N: int64(size - 4)}, version: version,
		budget: c.client.budget, opens: c.client.consumes.Load(), tail: head,
	}
	if a.opens {
		a.page = c.client.budget.newPage()
		c.mu.Lock()
		c.client.budget.taken(c.page)
		c.page = a.page
		c.mu.Unlock()
	}
	if err := a.read(); err != nil {
		return fmt.Errorf("answer to a fetch: %w", err)
	}
	if a.opens {
		c.client.budget.handed(a.page)
	}
	c.out = a.done()
	return nil
}

func (c *conn) asked(correlation int32) (version int16, fetch bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	version, fetch = c.fetches[correlation]
	delete(c.fetches, correlation)
	return version, fetch
}
