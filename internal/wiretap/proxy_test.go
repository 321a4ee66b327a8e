package wiretap

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const topic = "t"

// bench is an embedded cluster with a tap before it.
type bench struct {
	t    *testing.T
	fake *kfake.Cluster
	tap  *Cluster
	ctx  context.Context
}

func setup(t *testing.T, brokers int) *bench {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	tap, err := NewCluster(fake.ListenAddrs())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tap.Err(), tap.Close()); err != nil {
			t.Error(err)
		}
	})
	// The bound only ends a test that would hang.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &bench{t: t, fake: fake, tap: tap, ctx: ctx}
}

// client returns a client behind the tap.
func (b *bench) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	return b.direct(append(opts, kgo.Dialer(b.tap.Dialer()))...)
}

// direct returns a client past the tap.
func (b *bench) direct(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.fake.ListenAddrs()...), kgo.MetadataMinAge(10 * time.Millisecond), kgo.DefaultProduceTopic(topic),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }),
	}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

// produce starts a produce and returns where its outcome comes.
func (b *bench) produce(cl *kgo.Client) <-chan error {
	done := make(chan error, 1)
	cl.Produce(b.ctx, kgo.StringRecord("x"), func(_ *kgo.Record, err error) { done <- err })
	return done
}

// count returns how many requests of a key the brokers get from here on.
func (b *bench) count(key kmsg.Key) *atomic.Int64 {
	var n atomic.Int64
	b.fake.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}

func (b *bench) wantEnd(want int64) {
	b.t.Helper()
	ends, err := kadm.NewClient(b.direct()).ListEndOffsets(b.ctx, topic)
	if err != nil {
		b.t.Fatal(err)
	}
	if o, _ := ends.Lookup(topic, 0); o.Offset != want {
		b.t.Errorf("end offset %d, want %d", o.Offset, want)
	}
}

func (b *bench) wait(done <-chan error) {
	b.t.Helper()
	select {
	case err := <-done:
		if err != nil {
			b.t.Fatal(err)
		}
	case <-b.ctx.Done():
		b.t.Fatal("no outcome")
	}
}

func (b *bench) await(f *Fault, n int) {
	b.t.Helper()
	if err := f.Await(b.ctx, n); err != nil {
		b.t.Fatal(err)
	}
}

func wantPending(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("outcome %v while the fault was on", err)
	default:
	}
}

func TestForwardsAndObserves(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	var mu sync.Mutex
	seen := map[string]int{}
	removeRequest := b.tap.OnRequest(func(r Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Name()]++
		if r.ClientID != "observed" || r.Conn == 0 || r.Upstream == "" {
			t.Errorf("header %+v", r)
		}
		if _, err := r.Decoded(); err != nil {
			t.Error(err)
		}
	})
	answers := map[string]int{}
	b.tap.OnResponse(func(r Request, resp kmsg.Response) {
		mu.Lock()
		defer mu.Unlock()
		if resp.Key() != r.Key || resp.GetVersion() != r.Version {
			t.Errorf("answer %d v%d to %s v%d", resp.Key(), resp.GetVersion(), r.Name(), r.Version)
		}
		answers[r.Name()]++
	})
	var onlyProduce atomic.Int64
	b.tap.OnResponse(func(r Request, _ kmsg.Response) {
		if r.Key != int16(kmsg.Produce) {
			t.Errorf("asked for Produce, got %s", r.Name())
		}
		onlyProduce.Add(1)
	}, kmsg.Produce)

	cl := b.client(kgo.ClientID("observed"), kgo.ConsumeTopics(topic), kgo.ConsumerGroup("g"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	b.wait(b.produce(cl))
	if fs := cl.PollFetches(b.ctx); fs.Err() != nil || fs.NumRecords() != 1 {
		t.Fatalf("%d records, %v", fs.NumRecords(), fs.Err())
	}
	mu.Lock()
	for _, name := range []string{"ApiVersions", "Metadata", "Produce", "JoinGroup", "Fetch"} {
		if seen[name] == 0 || answers[name] == 0 {
			t.Errorf("%s: seen %d, answered %d", name, seen[name], answers[name])
		}
	}
	mu.Unlock()
	if onlyProduce.Load() == 0 {
		t.Error("no Produce answer seen")
	}

	removeRequest()
	mu.Lock()
	before := seen["Produce"]
	mu.Unlock()
	b.wait(b.produce(cl))
	mu.Lock()
	defer mu.Unlock()
	if seen["Produce"] != before {
		t.Error("an observer was called after its removal")
	}
}

func TestAcksZeroLeavesNothingPending(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	cl := b.client(kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	for range 3 {
		b.wait(b.produce(cl))
	}
	p := b.tap.proxies[0]
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.mu.Lock()
		for _, r := range c.pending {
			if r.Key == int16(kmsg.Produce) {
				t.Errorf("%s waits for an answer that never comes", r.Name())
			}
		}
		c.mu.Unlock()
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	refusals := WatchRefusals(b.tap)
	cl := b.client()
	old, next := b.client(kgo.TransactionalID("id")), b.client(kgo.TransactionalID("id"))
	if err := old.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	b.wait(b.produce(old))
	if refusals.Count() != 0 {
		t.Fatalf("refusals before any stale write: %v", refusals.All())
	}
	if _, _, err := next.ProducerID(b.ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-b.produce(old); err == nil {
		t.Fatal("a fenced produce was accepted")
	}
	if err := refusals.Await(b.ctx, 1); err != nil {
		t.Fatal(err)
	}
	if by := refusals.By(); by["Produce INVALID_PRODUCER_EPOCH"]+by["Produce PRODUCER_FENCED"] == 0 {
		t.Errorf("refusals %v", by)
	}

	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.MemberID, commit.Generation = "nobody's", "stranger", 4
	known, err := kadm.NewClient(cl).ListTopics(b.ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, TopicID: known[topic].ID, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}}}
	before := refusals.Count()
	if _, err := commit.RequestWith(b.ctx, cl); err != nil {
		t.Fatal(err)
	}
	if err := refusals.Await(b.ctx, before+1); err != nil {
		t.Fatal(err)
	}
	last := refusals.All()[before]
	if last.Request.Name() != "OffsetCommit" || last.Partition != 0 || last.String() == "" {
		t.Errorf("refusal %v", last)
	}
	if !slices.Contains([]*kerr.Error{kerr.UnknownMemberID, kerr.GroupIDNotFound, kerr.IllegalGeneration}, last.Err) {
		t.Errorf("refusal %v", last)
	}
}

func TestDialerRefusesUnknownBroker(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	addr := b.fake.ListenAddrs()[0]
	dial := DialerFor(b.tap.Map())
	c, err := dial(b.ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, want := c.RemoteAddr().String(), b.tap.Proxy(addr).Addr(); got != want {
		t.Errorf("dialled %s, want the proxy %s", got, want)
	}
	if _, err := dial(b.ctx, "tcp", "127.0.0.1:1"); err == nil {
		t.Error("an address without a proxy was dialled")
	}
}

func TestOtherProtocolIsAnError(t *testing.T) {
	t.Parallel()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	p, err := New(upstream.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection was not ended")
	}
	if err := p.Err(); !errors.Is(err, errNotKafka) {
		t.Errorf("Err is %v, want %v", err, errNotKafka)
	}
}

func TestCloseEndsHeldConnections(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	cl := b.client()
	hold := b.tap.Fault(HoldRequest, Keys(kmsg.Metadata))
	pinged := make(chan error, 1)
	go func() { pinged <- cl.Ping(b.ctx) }()
	b.await(hold, 1)
	if err := b.tap.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.tap.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if n := b.tap.proxies[0].Conns(); n != 0 {
		t.Errorf("%d connections after Close", n)
	}
	hold.Lift()
	if err := <-pinged; err == nil {
		t.Error("a held ping succeeded after Close")
	}
}

func TestAwaitNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	f := b.tap.Fault(DropRequest, Any)
	defer f.Lift()
	cause := errors.New("over")
	ctx, cancel := context.WithCancelCause(b.ctx)
	cancel(cause)
	if err := f.Await(ctx, 1); !errors.Is(err, cause) {
		t.Errorf("Await: %v", err)
	}
	if err := WatchRefusals(b.tap).Await(ctx, 1); !errors.Is(err, cause) {
		t.Errorf("Await: %v", err)
	}
}

// Every account of the machine reaches the loopback: who does not know the token gets no byte to a broker.
func TestProxyIsClosedToStrangers(t *testing.T) {
	t.Parallel()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	reached := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := upstream.Accept()
			if err != nil {
				return
			}
			reached <- conn
		}
	}()
	c, err := NewClusterDialing([]string{upstream.Addr().String()}, "the token", (&net.Dialer{}).DialContext)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, said := range []string{"another 9", "the tokeN", "\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"} {
		conn, err := WithToken(said, c.Dialer())(t.Context(), "tcp", upstream.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(2 * tokenLimit)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("I6: the connection of a stranger that says %q is not reset: %v", said, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-reached:
		t.Error("I6: a stranger reached the broker")
	default:
	}
	conn, err := WithToken("the token", c.Dialer())(t.Context(), "tcp", upstream.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	select {
	case broker := <-reached:
		_ = broker.Close()
	case <-time.After(time.Minute):
		t.Error("who knows the token does not reach the broker")
	}
}
