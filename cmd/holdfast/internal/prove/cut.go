package prove

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Header is how a producer numbers a batch, which is what a broker knows a repeat by.
type Header struct {
	ProducerID int64 `json:"producerID"` // -1 without idempotence
	Epoch      int16 `json:"epoch"`
	Sequence   int32 `json:"sequence"`
}

// String names the three numbers.
func (h Header) String() string {
	if h.ProducerID < 0 {
		return "no producer id"
	}
	return fmt.Sprintf("producer %d, epoch %d, sequence %d", h.ProducerID, h.Epoch, h.Sequence)
}

// cutter wraps the connections of one client that sends one batch. It cuts the connection over which
// the batch leaves first, when the answer is there and has not been read: the broker is then known to
// have appended the batch, and the client cannot know it. It is safe for concurrent use.
type cutter struct {
	mu    sync.Mutex
	sent  []Header
	on    net.Conn // the one to be cut
	fired bool
}

func (c *cutter) wrap(conn net.Conn) net.Conn { return &cutConn{Conn: conn, c: c} }

// seen returns whether an answer was cut off, and what was sent until then and after.
func (c *cutter) seen() (fired bool, sent []Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fired, c.sent
}

// cutConn carries plain frames: the client writes a whole request with one call.
type cutConn struct {
	net.Conn
	c *cutter
}

func (c *cutConn) Write(b []byte) (int, error) {
	if h, ok := batchOf(b); ok {
		c.c.mu.Lock()
		c.c.sent = append(c.c.sent, h)
		if c.c.on == nil {
			c.c.on = c.Conn
		}
		c.c.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.c.mu.Lock()
	cut := err == nil && !c.c.fired && c.c.on == c.Conn
	c.c.fired = c.c.fired || cut
	c.c.mu.Unlock()
	if !cut {
		return n, err
	}
	clear(b[:n])
	_ = c.Conn.Close() // the client gets the error below, whatever this one says
	return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

// batchOf returns the numbers of the first batch in a request, if it is a produce request.
func batchOf(frame []byte) (h Header, ok bool) {
	if len(frame) < 8 || int(binary.BigEndian.Uint32(frame)) != len(frame)-4 {
		return h, false
	}
	b := kbin.Reader{Src: frame[4:]}
	key, version := b.Int16(), b.Int16()
	b.Int32() // correlation id
	b.NullableString()
	var req kmsg.ProduceRequest
	if key != req.Key() || version > req.MaxVersion() {
		return h, false
	}
	req.SetVersion(version)
	if req.IsFlexible() {
		kmsg.SkipTags(&b)
	}
	if !b.Ok() || req.ReadFrom(b.Src) != nil {
		return h, false
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			var batch kmsg.RecordBatch
			if batch.ReadFrom(p.Records) == nil {
				return Header{ProducerID: batch.ProducerID, Epoch: batch.ProducerEpoch, Sequence: batch.FirstSequence}, true
			}
		}
	}
	return h, false
}
