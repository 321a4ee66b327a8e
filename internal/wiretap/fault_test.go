package wiretap

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestHoldRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	joins := b.count(kmsg.JoinGroup)
	hold := b.tap.Fault(HoldRequest, Keys(kmsg.JoinGroup))
	consumer := b.client(kgo.ConsumeTopics(topic), kgo.ConsumerGroup("g"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	b.await(hold, 1)
	// Others run on: another client, and this one's other connections.
	b.wait(b.produce(b.client()))
	b.wait(b.produce(consumer))
	if n := joins.Load(); n != 0 {
		t.Errorf("%d JoinGroup requests reached the broker while held", n)
	}
	if caught := hold.Caught(); len(caught) != 1 || caught[0].Name() != "JoinGroup" {
		t.Errorf("caught %v", caught)
	}
	hold.Lift()
	hold.Lift()
	if fs := consumer.PollFetches(b.ctx); fs.Err() != nil || fs.NumRecords() == 0 {
		t.Errorf("%d records, %v", fs.NumRecords(), fs.Err())
	}
	if joins.Load() == 0 {
		t.Error("JoinGroup did not reach the broker after the lift")
	}
}

func TestReleaseKeepsHolding(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	cl := b.client()
	b.wait(b.produce(cl))
	hold := b.tap.Fault(HoldRequest, Keys(kmsg.Produce))
	first := b.produce(cl)
	b.await(hold, 1)
	hold.Release()
	b.wait(first)
	second := b.produce(cl)
	b.await(hold, 2)
	wantPending(t, second)
	b.wantEnd(2)
	hold.Lift()
	b.wait(second)
}

func TestHoldResponse(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	cl := b.client(kgo.TransactionalID("id"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	b.wait(b.produce(cl))
	ends := b.count(kmsg.EndTxn)
	hold := b.tap.Fault(HoldResponse, Committing)
	done := make(chan error, 1)
	go func() { done <- cl.EndTransaction(b.ctx, kgo.TryCommit) }()
	b.await(hold, 1)
	wantPending(t, done)
	if ends.Load() != 1 {
		t.Errorf("%d EndTxn requests reached the broker, want 1", ends.Load())
	}
	hold.Lift()
	b.wait(done)
}

func TestHeldRequestOutlivesItsClient(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	cl := b.client()
	b.wait(b.produce(cl))
	hold := b.tap.Fault(HoldRequest, Keys(kmsg.Produce))
	answered := make(chan struct{}, 1)
	b.tap.OnResponse(func(Request, kmsg.Response) { answered <- struct{}{} }, kmsg.Produce)
	b.produce(cl)
	b.await(hold, 1)
	cl.Close()
	b.wantEnd(1)
	hold.Lift()
	select {
	case <-answered:
	case <-b.ctx.Done():
		t.Fatal("the broker did not get the held request")
	}
	b.wantEnd(2)
}

func TestDropAndCut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		action    Action
		delivered int64 // records at the broker while the fault is on
		pending   bool  // the client gets no outcome until the fault is lifted and the connection cut
	}{
		"drop request":    {DropRequest, 1, true},
		"drop response":   {DropResponse, 2, true},
		"cut on request":  {CutOnRequest, 1, false},
		"cut on response": {CutOnResponse, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			cl := b.client(kgo.ClientID("victim"))
			b.wait(b.produce(cl))
			fault := b.tap.Fault(c.action, First(1, All(ClientID("victim"), Keys(kmsg.Produce))))
			done := b.produce(cl)
			b.await(fault, 1)
			if c.pending {
				b.wantEnd(c.delivered)
				wantPending(t, done)
				fault.Lift()
				if n := b.tap.Cut(func(id string) bool { return id == "nobody" }); n != 0 {
					t.Errorf("cut %d connections of a client that has none", n)
				}
				if n := b.tap.Cut(func(id string) bool { return id == "victim" }); n == 0 {
					t.Error("no connection was cut")
				}
			}
			b.wait(done) // the client has sent it again; idempotence makes one record of it
			b.wantEnd(2)
			if n := len(fault.Caught()); n != 1 {
				t.Errorf("caught %d, want 1", n)
			}
		})
	}
}

func TestLose(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(*Cluster, bool)
		end  int64
	}{
		"requests":  {(*Cluster).LoseRequests, 1},
		"responses": {(*Cluster).LoseResponses, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			cl := b.client()
			b.wait(b.produce(cl))
			produces := b.count(kmsg.Produce)
			left := make(chan struct{}, 100)
			b.tap.OnRequest(func(r Request) {
				if r.Key == int16(kmsg.Produce) {
					left <- struct{}{}
				}
			})
			answered := make(chan struct{}, 100)
			b.tap.OnResponse(func(Request, kmsg.Response) { answered <- struct{}{} }, kmsg.Produce)
			c.lose(b.tap, true)
			done := b.produce(cl)
			<-left
			if c.end == 2 {
				<-answered
			}
			b.wantEnd(c.end)
			wantPending(t, done)
			if got := produces.Load(); got != c.end-1 { // the first was before the count
				t.Errorf("%d produce requests reached the broker, want %d", got, c.end-1)
			}
			c.lose(b.tap, false)
			b.wait(done)
			b.wantEnd(2)
		})
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	cl := b.client()
	b.wait(b.produce(cl))
	b.tap.Refuse(true)
	if b.tap.Cut(nil) == 0 {
		t.Error("no connection was cut")
	}
	done := b.produce(cl)
	short, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
	defer cancel()
	if err := b.client(kgo.RequestRetries(0)).Ping(short); err == nil {
		t.Error("a ping went through a proxy that refuses")
	}
	wantPending(t, done)
	b.wantEnd(1)
	b.tap.Refuse(false)
	b.wait(done)
	b.wantEnd(2)
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	cl := b.client(kgo.TransactionalID("id"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	b.wait(b.produce(cl))
	codes := make(chan int16, 1)
	b.tap.OnResponse(func(_ Request, resp kmsg.Response) { codes <- resp.(*kmsg.EndTxnResponse).ErrorCode }, kmsg.EndTxn)
	fence := b.tap.Answer(kerr.ProducerFenced, First(1, Committing))
	if err := cl.EndTransaction(b.ctx, kgo.TryCommit); !errors.Is(err, kerr.ProducerFenced) {
		t.Errorf("the end was answered with %v", err)
	}
	if code := <-codes; code != 0 {
		t.Errorf("the broker's own answer was %d", code)
	}
	if n := len(fence.Caught()); n != 1 {
		t.Errorf("caught %d, want 1", n)
	}
	fence.Lift()
	b.wantEnd(2) // the record and the marker of its commit
}

// An answer with an error for each of its parts has no one place for another error.
func TestAnswerThatHasNoErrorAsAWhole(t *testing.T) {
	t.Parallel()
	r := Request{Key: int16(kmsg.Produce), Version: 9, body: &body{}}
	resp := kmsg.NewPtrProduceResponse()
	resp.SetVersion(r.Version)
	frame := resp.AppendTo(make([]byte, 9)) // length, correlation id, no tags
	if _, err := r.answeredWith(frame, refuse(kerr.ProducerFenced.Code)); err == nil {
		t.Error("the answer to a produce request was changed")
	}
}

func TestFaultWithoutActionPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a fault without an action was accepted")
		}
	}()
	newFault(0, Any)
}
