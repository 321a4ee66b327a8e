package member_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// again deletes the input and makes it again, with n records.
func (p *place) again(n int) {
	p.t.Helper()
	p.must(p.cluster.DeleteTopic(input))
	p.must(p.cluster.CreateTopic(input, 1, nil))
	cl := p.stranger()
	defer cl.Close()
	for range n {
		p.must(cl.ProduceSync(p.t.Context(), &kgo.Record{Topic: input, Key: []byte("k"), Value: []byte("1")}).FirstErr())
	}
}

// putBack commits an offset again: a broker forgets those of a topic with it, and an operator may know them.
func (p *place) putBack(next int64) {
	p.t.Helper()
	var back kadm.Offsets
	back.AddOffset(input, 0, next, -1)
	cl := p.stranger()
	defer cl.Close()
	p.must(kadm.NewClient(cl).CommitAllOffsets(p.t.Context(), "flow", back))
}

// stranger is a client that has not known any topic as it was.
func (p *place) stranger() *kgo.Client {
	p.t.Helper()
	cl, err := p.k.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	p.must(err)
	return cl
}

// R21: the offsets that a state has applied are those of a log that is gone. Of the one of the same name
// the records before them would be nobody's.
func TestInputMadeAgainWhileStopped(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]holdfast.Guarantee{"FencedState": holdfast.FencedState, "Unfenced": holdfast.Unfenced} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 3)
			conf := p.config()
			conf.Guarantee = g
			p.must(until(p, conf, 3))
			p.again(5)
			p.putBack(3)
			if err := until(p, conf, 5); !errors.Is(err, stream.ErrInputChanged) {
				t.Errorf("I2: a state of three records of another log was folded on: %v", err)
			}
			p.wantStored(map[string]string{"k": "3"})
		})
	}
}

// The same under a running member, whose client finds out by the topic id that it fetches by.
func TestInputMadeAgainWhileRunning(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conf := p.config()
	var once sync.Once
	var replaced sync.WaitGroup
	defer replaced.Wait()
	beyond := atomic.Int64{}
	conf.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
		beyond.Store(e.Next)
		if e.Next == 3 {
			once.Do(func() { replaced.Go(func() { p.again(5) }) })
		}
		if e.Next > 3 {
			cancel()
		}
	}}}
	f, err := holdfast.New(conf)
	p.must(err)
	if err := f.Run(ctx); !errors.Is(err, stream.ErrInputChanged) {
		t.Errorf("I7: the log was replaced under the run, which ended with %v", err)
	}
	if n := beyond.Load(); n != 3 {
		t.Errorf("I2: the log was replaced behind offset 3, and the run has committed %d", n)
	}
	p.wantStored(map[string]string{"k": "3"})
}

// R21: an unclean election has cut the log below what the state has folded, and other records have come
// since. Their offsets say nothing; the leader epoch of the last folded record does.
func TestInputTruncatedWhileStopped(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	p.must(until(p, p.config(), 3))
	p.produce("k", 2)
	p.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, topic := range req.(*kmsg.OffsetForLeaderEpochRequest).Topics {
			answered := kmsg.NewOffsetForLeaderEpochResponseTopic()
			answered.Topic = topic.Topic
			for _, asked := range topic.Partitions {
				end := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				end.Partition, end.LeaderEpoch, end.EndOffset = asked.Partition, asked.LeaderEpoch, 2
				answered.Partitions = append(answered.Partitions, end)
			}
			resp.Topics = append(resp.Topics, answered)
		}
		return resp, nil, true
	})
	if err := until(p, p.config(), 5); !errors.Is(err, stream.ErrTruncated) {
		t.Errorf("I2: a state of records that are gone was folded on: %v", err)
	}
	p.wantStored(map[string]string{"k": "3"})
}

// R14: a batch that was polled under one ownership is not folded under the next one of the same partition,
// whose start lies before it:
//
//  1. The records 0 to 4 wait in the queue of the first ownership, and 5 to 9 have been polled.
//  2. The member joins again under another id, and is granted the partition again. Nothing is committed.
//  3. The second ownership begins at 0. Were 5 to 9 folded in it, those before them would be lost.
func TestBatchOfAnEarlierOwnership(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conf := p.config()
	conf.Member.SessionTimeout, conf.Member.RebalanceTimeout = time.Second, 3*time.Second
	held := make(chan struct{})
	first, next := true, int64(0)
	conf.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
		if first { // until its ownership ends
			first = false
			close(held)
			<-ctx.Done()
			return ctx.Err()
		}
		if r.Offset != next {
			t.Errorf("I2: the second ownership was to fold %d before %d", r.Offset, next)
			return errors.New("not the next record")
		}
		next++
		return count(1)(ctx, k, r)
	}
	restores := 0
	conf.Hooks = []holdfast.Hooks{{
		Restored: func(stream.Restored) {
			if restores++; restores == 2 { // so that a poll comes back, whatever the client has fetched
				p.produce("k", 1)
			}
		},
		Committed: func(e stream.Committed) {
			if e.Next == 11 {
				cancel()
			}
		},
	}}
	f, err := holdfast.New(conf)
	p.must(err)
	var flow sync.WaitGroup
	defer flow.Wait()
	polled := p.polledUpTo(5, 10)
	p.produce("k", 5)
	flow.Go(func() {
		if err := f.Run(ctx); err != nil || next != 11 {
			t.Errorf("I2: the run has folded up to %d, and ended with %v", next, err)
		}
	})
	for _, ready := range []<-chan struct{}{polled[0], polled[1], held} {
		select {
		case <-ready:
		case <-ctx.Done():
			t.Error("the batches were not polled")
			return
		}
		if ready == polled[0] {
			p.produce("k", 5)
		}
	}
	// The client is told with its next join, and joins again without a word: a poll is not woken by it.
	p.cluster.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.UnknownMemberID, Count: 1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress, Count: 1},
	)
}

// polledUpTo tells when polls have taken the records before each of some offsets: the client fetches on then.
func (p *place) polledUpTo(offsets ...int64) (polled []<-chan struct{}) {
	open := map[int64]chan struct{}{}
	for _, o := range offsets {
		open[o] = make(chan struct{})
		polled = append(polled, open[o])
	}
	p.cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		for _, topic := range req.(*kmsg.FetchRequest).Topics {
			for _, partition := range topic.Partitions {
				if c, ok := open[partition.FetchOffset]; ok {
					delete(open, partition.FetchOffset)
					close(c)
				}
			}
		}
		return nil, nil, false
	})
	return polled
}
