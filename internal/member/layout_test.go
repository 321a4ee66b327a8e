package member_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// behind has the broker tell one partition of the input, as one does that has not caught up, until it is lifted.
func (p *place) behind() *atomic.Bool {
	p.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(input)}}
	before, err := req.RequestWith(p.t.Context(), p.cl)
	p.must(err)
	lifted := &atomic.Bool{}
	p.cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		asked := req.(*kmsg.MetadataRequest)
		if lifted.Load() || len(asked.Topics) != 1 || asked.Topics[0].Topic == nil || *asked.Topics[0].Topic != input {
			return nil, nil, false
		}
		resp := asked.ResponseKind().(*kmsg.MetadataResponse)
		version := resp.Version
		*resp = *before
		resp.Version = version
		return resp, nil, true
	})
	return lifted
}

// R31: a key that has moved into a partition is not committed there as a new one. The producer hears of the new
// partition first; the brokers that the member asks tell of it once the record was folded:
//
//  1. The input has one partition, and gets a second one.
//  2. A record is written by a producer that knows, and folded by a member that does not: into an empty state.
//  3. What is committed of it stays. The other state of the key is where its old records are.
func TestKeysThatMovedAreNotCommitted(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]holdfast.Guarantee{"FencedState": holdfast.FencedState, "FencedOutputs": holdfast.FencedOutputs, "Unfenced": holdfast.Unfenced} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 3)
			conf := p.config()
			conf.Guarantee = g
			if g == holdfast.FencedOutputs {
				conf.Commit.Persist = 0
			}
			lifted := p.behind()
			conf.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
				if r.Offset == 3 {
					lifted.Store(true) // the brokers have caught up
				}
				return count(1)(ctx, k, r)
			}
			var once sync.Once
			var widened sync.WaitGroup
			defer widened.Wait()
			newest := atomic.Int64{}
			conf.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
				newest.Store(e.Next)
				if e.Next == 3 {
					once.Do(func() { widened.Go(func() { p.add(1); p.produce("moved", 1) }) })
				}
			}}}
			f, err := holdfast.New(conf)
			p.must(err)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err = f.Run(ctx)
			if n := newest.Load(); n != 3 {
				t.Errorf("I2: a partition was added behind offset 3, and the run has committed %d", n)
			}
			if !errors.Is(err, stream.ErrInputChanged) || !strings.Contains(err.Error(), "had 1 partitions and has 2") {
				t.Errorf("I2: a partition was added, and the run ended with %v", err)
			}
			p.wantStored(map[string]string{"k": "3"})
		})
	}
}

// R31: a member without records to commit finds it out as well, and does not wait for its client to hear of it.
func TestAddedPartitionIsSeenByAnIdleMember(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	conf := p.config()
	var assigned atomic.Int64
	restored := make(chan struct{}, 10)
	conf.Hooks = []holdfast.Hooks{{
		Assigned: func(stream.Assigned) { assigned.Add(1) },
		Restored: func(stream.Restored) { restored <- struct{}{} },
	}}
	f, err := holdfast.New(conf)
	p.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var widened sync.WaitGroup
	widened.Go(func() {
		<-restored
		p.add(1)
	})
	err = f.Run(ctx)
	widened.Wait()
	if !errors.Is(err, stream.ErrInputChanged) || assigned.Load() != 1 {
		t.Errorf("I6: a partition was added, and after %d assignments the run ended with %v", assigned.Load(), err)
	}
}

// R31: no start policy mends an input whose keys have moved: folded again, a key has two states as it had two before.
// What the hint names does, and so does an input that was made again.
func TestRebuildDoesNotCureMovedKeys(t *testing.T) {
	t.Parallel()
	for _, policy := range []holdfast.Disagreement{holdfast.StopAndAsk, holdfast.Rebuild, holdfast.AdoptEmpty, holdfast.ResumeAtProgress} {
		p := newPlace(t)
		p.produce("k", 3)
		p.must(until(p, p.config(), 3))
		p.add(1)
		conf := p.config()
		conf.Start.Disagreement = policy
		err := until(p, conf, 3)
		if !errors.Is(err, stream.ErrInputChanged) || !strings.Contains(err.Error(), "had 1 partitions and has 2") {
			t.Fatalf("I2: with %v the run ended with %v", policy, err)
		}
		e := (*stream.Error)(nil)
		if !errors.As(err, &e) || strings.Contains(e.Hint, "Rebuild") || !strings.Contains(e.Hint, "with a pipe") || !strings.Contains(e.Hint, "a new group") {
			t.Errorf("the hint does not name the way out: %v", err)
		}
		p.wantStored(map[string]string{"k": "3"})
		if policy == holdfast.Rebuild {
			p.must(p.cluster.DeleteTopic(input))
			p.must(p.cluster.CreateTopic(input, 2, nil))
			cl := p.stranger()
			p.must(cl.ProduceSync(t.Context(), &kgo.Record{Topic: input, Key: []byte("k"), Value: []byte("1")}).FirstErr())
			cl.Close()
			p.must(until(p, conf, 1))
			p.wantStored(map[string]string{"k": "1"})
		}
	}
}

// R31: a process that starts when the partition is there knows no other layout. It does not begin the new partition
// with empty states, although nothing is written there that could contradict it.
func TestAddedPartitionIsNotBegun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	p.must(until(p, p.config(), 3))
	p.add(1)
	cl, err := p.k.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	p.must(err)
	defer cl.Close()
	p.must(cl.ProduceSync(t.Context(), &kgo.Record{Topic: input, Partition: 1, Key: []byte("k"), Value: []byte("1")}).FirstErr())
	var joined atomic.Bool
	p.cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		if req.(*kmsg.JoinGroupRequest).Group == "flow" {
			joined.Store(true)
		}
		return nil, nil, false
	})
	f, err := holdfast.New(p.config())
	p.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Run(ctx); !errors.Is(err, stream.ErrInputChanged) || joined.Load() {
		t.Errorf("I2: with a partition that has no states yet it has joined (%v), and ended with %v", joined.Load(), err)
	}
	if got := p.storedIn(1); len(got) != 0 {
		t.Errorf("I2: the added partition has states: %v", got)
	}
}

// R21, R31: a partition is added when the start has found everything well, and before the group has given the member
// anything. Neither the partition that was there nor the one that was added is begun.
func TestLayoutIsComparedBeforeTheFirstFold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	p.must(until(p, p.config(), 3))
	p.produce("k", 1)
	joining, widened := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p.cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		select {
		case <-widened:
			return nil, nil, false
		default:
		}
		join := req.(*kmsg.JoinGroupRequest)
		if join.Group != "flow" {
			return nil, nil, false // of the probe
		}
		once.Do(func() { close(joining) })
		resp := join.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return resp, nil, true
	})
	go func() {
		<-joining
		p.add(1)
		close(widened)
	}()
	conf := p.config()
	conf.Start.Disagreement = holdfast.Rebuild
	var begun atomic.Bool
	conf.Hooks = []holdfast.Hooks{{Restored: func(stream.Restored) { begun.Store(true) }}}
	f, err := holdfast.New(conf)
	p.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Run(ctx); !errors.Is(err, stream.ErrInputChanged) || begun.Load() {
		t.Errorf("I2: a partition was added before the first fold, which was begun: %v. The run ended with %v", begun.Load(), err)
	}
	p.wantStored(map[string]string{"k": "3"})
}
