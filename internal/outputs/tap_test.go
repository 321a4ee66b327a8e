package outputs

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// tap is the wire of one member: everything that the member sends goes through its proxies.
type tap struct {
	*wiretap.Cluster
	t *testing.T

	mu     sync.Mutex
	sights []*sight
	byID   map[sightID]*sight
	grown  chan struct{} // closed, and replaced, when a request or an answer was seen
}

type sightID struct {
	upstream    string
	conn        uint64
	correlation int32
}

// sight is one request that was seen on the wire, and the code of its answer.
type sight struct {
	wiretap.Request
	req      kmsg.Request
	answered bool
	code     int16 // the first that is not 0
}

func (s sight) String() string {
	answer := "no answer"
	if s.answered {
		answer = "NONE"
		if e := kerr.TypedErrorForCode(s.code); e != nil {
			answer = e.Message
		}
	}
	return fmt.Sprintf("%s %s: %s", s.Name(), wiretap.TransactionalID(s.req), answer)
}

// newTap returns a tap before all brokers of c.
func newTap(t *testing.T, c *kafkatest.Cluster) *tap {
	t.Helper()
	cluster, err := wiretap.NewCluster(c.Addrs)
	if err != nil {
		t.Fatal(err)
	}
	w := &tap{Cluster: cluster, t: t, byID: map[sightID]*sight{}, grown: make(chan struct{})}
	cluster.OnRequest(w.request)
	cluster.OnResponse(w.response, kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.InitProducerID, kmsg.AddOffsetsToTxn, kmsg.AddPartitionsToTxn)
	t.Cleanup(func() {
		if err := cluster.Err(); err != nil {
			t.Error(err)
		}
		cluster.Close()
	})
	return w
}

// through takes a component's connections through the tap.
func (w *tap) through(s settings) settings {
	s.Kafka.Opts = append(s.Kafka.Opts, kgo.Dialer(w.Dialer()))
	return s
}

func (w *tap) request(r wiretap.Request) {
	req, err := r.Decoded()
	if err != nil {
		return // the proxy reports it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &sight{Request: r, req: req}
	w.sights = append(w.sights, s)
	w.byID[sightID{r.Upstream, r.Conn, r.CorrelationID}] = s
	w.growLocked()
}

func (w *tap) response(r wiretap.Request, resp kmsg.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.byID[sightID{r.Upstream, r.Conn, r.CorrelationID}]; s != nil {
		s.answered, s.code = true, wiretap.FirstCode(resp)
	}
	w.growLocked()
}

func (w *tap) growLocked() {
	close(w.grown)
	w.grown = make(chan struct{})
}

// mark is a place on the wire, to look at what comes after it.
func (w *tap) mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sights)
}

// seen returns what was seen after mark and is accepted by is.
func (w *tap) seen(mark int, is func(sight) bool) (out []sight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sights[mark:] {
		if is(*s) {
			out = append(out, *s)
		}
	}
	return out
}

// awaitSeen waits until n requests after mark are accepted by is.
func (w *tap) awaitSeen(what string, mark, n int, is func(sight) bool) []sight {
	w.t.Helper()
	limit := time.After(patience)
	for {
		w.mu.Lock()
		grown := w.grown
		w.mu.Unlock()
		if found := w.seen(mark, is); len(found) >= n {
			return found
		}
		select {
		case <-grown:
		case <-limit:
			w.t.Fatalf("the wire has not shown %s %d times within %v; writes: %v", what, n, patience, w.seen(mark, transactional))
		}
	}
}

// transactional accepts requests under a transactional id.
func transactional(s sight) bool { return wiretap.TransactionalID(s.req) != "" }

// is accepts requests of a key.
func is(key kmsg.Key) func(sight) bool { return func(s sight) bool { return kmsg.Key(s.Key) == key } }

// on matches requests of one of the keys under a transactional id, for faults.
func on(id string, keys ...kmsg.Key) wiretap.Match {
	return wiretap.All(wiretap.Keys(keys...), func(r wiretap.Request) bool {
		req, err := r.Decoded()
		return err == nil && wiretap.TransactionalID(req) == id
	})
}

// caught waits until a fault has applied n times.
func caught(t *testing.T, f *wiretap.Fault, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Await(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// orderly looks at every transaction on the wire: nothing but produce requests, then the offset, then
// one end, and no offset ever goes through the consumer. It returns how many were committed.
func (w *tap) orderly() (committed int) {
	w.t.Helper()
	if n := len(w.seen(0, is(kmsg.OffsetCommit))); n != 0 {
		w.t.Errorf("%d OffsetCommit requests", n)
	}
	bound := map[string]bool{} // by transactional id: the offset is in the open transaction
	ended := map[string]attempt{}
	for _, s := range w.seen(0, transactional) {
		id := wiretap.TransactionalID(s.req)
		switch r := s.req.(type) {
		case *kmsg.InitProducerIDRequest:
			bound[id] = false
		case *kmsg.TxnOffsetCommitRequest:
			if bound[id] {
				w.t.Errorf("two offsets in one transaction of %s", id)
			}
			bound[id] = true
		case *kmsg.EndTxnRequest:
			this := attempt{r.ProducerID, r.ProducerEpoch}
			switch {
			case !bound[id] && ended[id] == this: // the client asks again for an answer that has not come
				continue
			case r.Commit && !bound[id]:
				w.t.Errorf("a commit without an offset before it, under %s", id)
			case r.Commit:
				committed++
			}
			bound[id], ended[id] = false, this
		default:
			if bound[id] {
				w.t.Errorf("%v comes after the offset", s)
			}
		}
	}
	return committed
}
