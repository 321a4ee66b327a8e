package acceptance

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
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
	place    int // on the wire, for mark
	req      kmsg.Request
	answered bool
	code     int16         // the first that is not 0
	resp     kmsg.Response // nil until answered
}

func (s sight) String() string {
	answer := "no answer"
	if s.answered {
		answer = "answer " + codeName(s.code)
	}
	return fmt.Sprintf("%s %s member %q: %s", s.Name(), wiretap.TransactionalID(s.req), memberID(s.req), answer)
}

func codeName(code int16) string {
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Message
	}
	return "NONE"
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
	cluster.OnResponse(w.response, kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.InitProducerID, kmsg.AddOffsetsToTxn,
		kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.OffsetFetch, kmsg.Fetch)
	t.Cleanup(func() {
		if err := cluster.Err(); err != nil {
			t.Error(err)
		}
		cluster.Close()
	})
	return w
}

func (w *tap) request(r wiretap.Request) {
	req, err := r.Decoded()
	if err != nil {
		return // the proxy reports it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &sight{Request: r, place: len(w.sights), req: req}
	w.sights = append(w.sights, s)
	w.byID[sightID{r.Upstream, r.Conn, r.CorrelationID}] = s
	w.growLocked()
}

func (w *tap) response(r wiretap.Request, resp kmsg.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.byID[sightID{r.Upstream, r.Conn, r.CorrelationID}]; s != nil {
		s.answered, s.code, s.resp = true, wiretap.FirstCode(resp), resp
	}
	w.growLocked()
}

func (w *tap) growLocked() {
	close(w.grown)
	w.grown = make(chan struct{})
}

func memberID(req kmsg.Request) string {
	switch r := req.(type) {
	case *kmsg.TxnOffsetCommitRequest:
		return r.MemberID
	case *kmsg.JoinGroupRequest:
		return r.MemberID
	case *kmsg.SyncGroupRequest:
		return r.MemberID
	case *kmsg.HeartbeatRequest:
		return r.MemberID
	}
	return ""
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
			w.t.Fatalf("the wire has not shown %s %d times within %v; writes: %v", what, n, patience, w.seen(mark, isWrite))
		}
	}
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

// isWrite accepts every request of a transaction but its initialisation.
func isWrite(s sight) bool {
	switch s.req.(type) {
	case *kmsg.ProduceRequest, *kmsg.TxnOffsetCommitRequest, *kmsg.EndTxnRequest, *kmsg.AddOffsetsToTxnRequest:
		return wiretap.TransactionalID(s.req) != ""
	}
	return false
}

// isRequest accepts requests of the same kind as E that are accepted by each of also.
func isRequest[E kmsg.Request](also ...func(sight) bool) func(sight) bool {
	return func(s sight) bool {
		if _, ok := s.req.(E); !ok {
			return false
		}
		for _, is := range also {
			if !is(s) {
				return false
			}
		}
		return true
	}
}

// under accepts requests under a transactional id.
func under(id string) func(sight) bool {
	return func(s sight) bool { return wiretap.TransactionalID(s.req) == id }
}

// answered accepts requests with this answer; nil means success.
func answeredWith(e *kerr.Error) func(sight) bool {
	return func(s sight) bool { return s.answered && (e == nil && s.code == 0 || e != nil && s.code == e.Code) }
}

// onID matches requests under a transactional id, for faults.
func onID(id string) wiretap.Match {
	return func(r wiretap.Request) bool {
		req, err := r.Decoded()
		return err == nil && wiretap.TransactionalID(req) == id
	}
}

// idOf returns the transactional id of one partition of a flow that has the default snapshot topic.
func idOf(group string, partition int32) string {
	return fence.TransactionalID(group, group+"-snapshots", partition)
}

// tapped takes a flow's connections through a tap, under a client id by which the group knows it.
func tapped(c holdfast.Config[tally], w *tap, clientID string) holdfast.Config[tally] {
	c.Kafka.Opts = append(c.Kafka.Opts, kgo.Dialer(w.Dialer()), kgo.ClientID(clientID))
	c.Logger = slog.New(slog.NewTextHandler(w.t.Output(), nil)).With("member", clientID)
	return c
}

// short gives a flow the shortest timings that a loaded machine bears.
func short(c holdfast.Config[tally]) holdfast.Config[tally] {
	c.Member.SessionTimeout, c.Member.RebalanceTimeout = 4*time.Second, 6*time.Second
	return c
}

// awaitGroup waits until the group is accepted by is.
func awaitGroup(t *testing.T, c *kafkatest.Cluster, group, what string, is func(kadm.DescribedGroup) bool) {
	t.Helper()
	admin := kadm.NewClient(c.Client(t))
	limit := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		gs, err := admin.DescribeGroups(t.Context(), group)
		if err == nil && is(gs[group]) {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("group %s: not %s within %v: %v (%v)", group, what, patience, gs[group], err)
		}
	}
}

// awaitExpelled waits until the group has no member of a client id, and has settled without it.
func awaitExpelled(t *testing.T, c *kafkatest.Cluster, group, clientID string) {
	t.Helper()
	awaitGroup(t, c, group, "rid of "+clientID, func(g kadm.DescribedGroup) bool {
		for _, m := range g.Members {
			if m.ClientID == clientID {
				return false
			}
		}
		return g.State == "Stable" || g.State == "Empty"
	})
}

// awaitNoTransaction waits until the markers of the last transaction under id are written.
func awaitNoTransaction(t *testing.T, c *kafkatest.Cluster, id string) {
	t.Helper()
	admin := kadm.NewClient(c.Client(t))
	limit := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ts, err := admin.DescribeTransactions(t.Context(), id)
		if state := ts[id].State; err == nil && (state == "CompleteCommit" || state == "CompleteAbort") {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("the transaction under %s has not ended within %v: %v (%v)", id, patience, ts[id], err)
		}
	}
}
