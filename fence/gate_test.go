package fence

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func frame(key kmsg.Key) []byte {
	b := make([]byte, 16)
	binary.BigEndian.PutUint32(b, 12)
	binary.BigEndian.PutUint16(b[4:], uint16(key))
	return b
}

// sink counts what is really written.
type sink struct {
	net.Conn
	frames int
}

func (s *sink) Write(b []byte) (int, error) { s.frames++; return len(b), nil }
func (s *sink) Close() error                { return nil }

func TestGateHoldsBackInitProducerIDAlone(t *testing.T) {
	t.Parallel()
	no := errors.New("the group said no")
	var answer error
	g := newGate(t.Context(), func(context.Context) error { return answer })
	out := &sink{}
	c := g.wrap(out)
	if _, err := c.Write(frame(kmsg.InitProducerID)); err != nil || out.frames != 1 {
		t.Fatalf("an allowed one: %v, %d frames", err, out.frames)
	}
	answer = no
	if _, err := c.Write(frame(kmsg.InitProducerID)); !errors.Is(err, no) || out.frames != 1 {
		t.Errorf("a refused one: %v, %d frames", err, out.frames)
	}
	if _, err := c.Write(frame(kmsg.EndTxn)); err != nil || out.frames != 2 {
		t.Errorf("another request: %v, %d frames", err, out.frames)
	}
	answer = nil // the refusal stays: the client is of no use any more
	if _, err := g.wrap(out).Write(frame(kmsg.InitProducerID)); !errors.Is(err, no) || out.frames != 2 {
		t.Errorf("after a refusal: %v, %d frames", err, out.frames)
	}
	select {
	case <-g.refused:
	default:
		t.Error("nobody was told of the refusal")
	}
}

func TestGateNeverHangs(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*gate, net.Conn){
		"the connection is closed": func(_ *gate, c net.Conn) { c.Close() },
		"the client is closed":     func(g *gate, _ net.Conn) { g.close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
				out := &sink{}
				c := g.wrap(out)
				ended := make(chan error, 1)
				go func() { _, err := c.Write(frame(kmsg.InitProducerID)); ended <- err }()
				synctest.Wait()
				end(g, c)
				if err := <-ended; err == nil || out.frames != 0 {
					t.Errorf("%v, %d frames", err, out.frames)
				}
				if g.refusal() != nil {
					t.Error("a wait that was ended counts as a refusal")
				}
			})
		})
	}
}

func TestGateIsSealedAfterTheTakeover(t *testing.T) {
	t.Parallel()
	g := newGate(t.Context(), func(context.Context) error { return nil })
	out := &sink{}
	c := g.wrap(out)
	g.seal()
	if _, err := c.Write(frame(kmsg.InitProducerID)); !errors.Is(err, errSealed) || out.frames != 0 {
		t.Errorf("%v, %d frames", err, out.frames)
	}
}

// The gate counts the commits that go out, in each version of the request, whatever the client's id.
func TestGateCountsCommits(t *testing.T) {
	t.Parallel()
	g := newGate(t.Context(), nil)
	c, want := g.wrap(&sink{}), int64(0)
	for _, id := range []*string{nil, kmsg.StringPtr(""), kmsg.StringPtr("flow-1")} {
		for version := range kmsg.NewPtrEndTxnRequest().MaxVersion() + 1 {
			for _, commit := range []bool{true, false} {
				req := kmsg.NewPtrEndTxnRequest()
				req.Version, req.TransactionalID, req.ProducerID, req.Commit = version, "a transactional id", 1<<62, commit
				f := kmsg.NewRequestFormatter()
				if id != nil {
					f = kmsg.NewRequestFormatter(kmsg.FormatterClientID(*id))
				}
				b := f.AppendRequest(nil, req, 7)
				if _, err := c.Write(b); err != nil {
					t.Fatal(err)
				}
				if commit {
					want++
				}
				if got := g.commits.Load(); got != want {
					t.Fatalf("version %d, commit %v: %d commits were counted, want %d", version, commit, got, want)
				}
				for n := range b { // what is cut off is none, and harmless
					isCommit(b[:n])
				}
			}
		}
	}
	if isCommit(frame(kmsg.EndTxn)) {
		t.Error("a frame of zeros counts as a commit")
	}
}
