package member_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// part is a flow that runs beside another one of the same group, and what it has told.
type part struct {
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}
	err  error

	mu       sync.Mutex
	restored []stream.Restored
	assigned map[int32]int64 // committed offset found at the last assignment
	next     map[int32]int64 // committed by it
	revoked  int
	told     chan struct{} // closed, and replaced, with each event
}

func (p *place) part(ctx context.Context, c holdfast.Config[int]) *part {
	p.t.Helper()
	f := &part{t: p.t, done: make(chan struct{}), told: make(chan struct{}), assigned: map[int32]int64{}, next: map[int32]int64{}}
	c.Hooks = append(c.Hooks, holdfast.Hooks{
		Restored:  func(e stream.Restored) { f.note(func() { f.restored = append(f.restored, e) }) },
		Assigned:  func(e stream.Assigned) { f.note(func() { f.assigned[e.Partition.Partition] = e.Committed }) },
		Revoked:   func(stream.Released) { f.note(func() { f.revoked++ }) },
		Committed: func(e stream.Committed) { f.note(func() { f.next[e.Partition.Partition] = e.Next }) },
	})
	h, err := holdfast.New(c)
	p.must(err)
	ctx, f.stop = context.WithTimeout(ctx, patience)
	go func() {
		defer close(f.done)
		f.err = h.Run(ctx)
	}()
	p.t.Cleanup(func() { f.stop(); <-f.done })
	return f
}

func (f *part) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.told)
	f.told = make(chan struct{})
}

// await waits until is holds; it reports false if the flow ended before.
func (f *part) await(is func() bool) bool {
	f.t.Helper()
	limit := time.After(patience)
	for {
		f.mu.Lock()
		ok, told := is(), f.told
		f.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-told:
		case <-f.done:
			return false
		case <-limit:
			f.t.Fatal("nothing came of it")
		}
	}
}

// restoration waits for the n-th restoration of any partition, from 1, and returns it.
func (f *part) restoration(n int) (e stream.Restored, ok bool) {
	f.t.Helper()
	ok = f.await(func() bool { return len(f.restored) >= n })
	if ok {
		e = f.restored[n-1]
	}
	return e, ok
}

func (f *part) commits(partition int32, next int64) {
	f.t.Helper()
	if !f.await(func() bool { return f.next[partition] >= next }) {
		f.t.Fatalf("offset %d of partition %d was not committed: %v", next, partition, f.err)
	}
}

func (f *part) end() error {
	f.stop()
	<-f.done
	return f.err
}

// produceTo writes n records to a partition; the key is the partition's own.
func (p *place) produceTo(partition int32, n int) {
	p.t.Helper()
	for range n {
		r := &kgo.Record{Partition: partition, Key: fmt.Appendf(nil, "k%d", partition), Value: []byte("1")}
		p.must(p.cl.ProduceSync(p.t.Context(), r).FirstErr())
	}
}

// away has a flow lose one of its two partitions to another member, calls while with it, has the other
// member leave, and returns how the partition came back.
func away(p *place, ctx context.Context, c holdfast.Config[int], while func(other *part, moved int32)) (a *part, back stream.Restored, ok bool) {
	p.t.Helper()
	p.add(1)
	p.produceTo(0, 3)
	p.produceTo(1, 3)
	a = p.part(ctx, c)
	a.commits(0, 3)
	a.commits(1, 3)
	b := p.part(ctx, p.retaining(c.Guarantee))
	e, ok := b.restoration(1)
	if !ok {
		p.t.Fatal(b.err)
	}
	if e.Retained {
		p.t.Error("the other member has retained what it never had")
	}
	while(b, e.Partition.Partition)
	p.must(b.end())
	back, ok = a.restoration(3)
	return a, back, ok
}

func nothing(*part, int32) {}

// A partition that comes back with nobody having committed goes on with what was in memory, and its
// states are what they would be without the rebalance.
func TestRetainedStateIsUsed(t *testing.T) {
	t.Parallel()
	for _, guarantee := range []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs} {
		t.Run(guarantee.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			a, back, ok := away(p, t.Context(), p.retaining(guarantee), nothing)
			if !ok || !back.Retained || back.Records != 0 || back.Keys != 1 || back.Start != 3 {
				t.Fatalf("the partition came back as %+v, %v", back, a.err)
			}
			p.produceTo(back.Partition.Partition, 2)
			a.commits(back.Partition.Partition, 5)
			p.must(a.end())
			want := map[string]string{"k0": "3", "k1": "3"}
			want[fmt.Sprintf("k%d", back.Partition.Partition)] = "5"
			p.wantStored2(want)
		})
	}
}

// retaining is a flow of either guarantee.
func (p *place) retaining(g holdfast.Guarantee) holdfast.Config[int] {
	c := p.config()
	c.Guarantee = g
	if g == holdfast.FencedOutputs {
		c.Commit.Persist = 0
	}
	return c
}

// Whatever happened while the partition was away, what Kafka has is restored. With the rule off what was
// retained is used, and is wrong.
// Public case C14.
func TestRetainedStateIsDropped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		while func(*place) func(*part, int32)
		stops error // what the flow stops with; nil: it goes on
	}{
		{"another owner has committed", func(p *place) func(*part, int32) {
			return func(b *part, moved int32) {
				p.produceTo(moved, 2)
				b.commits(moved, 5)
			}
		}, nil},
		{"somebody has written a record", func(p *place) func(*part, int32) {
			return func(_ *part, moved int32) {
				p.must(p.cl.ProduceSync(t.Context(), &kgo.Record{Topic: states, Partition: moved, Value: []byte("x")}).FirstErr())
			}
		}, nil},
		{"the snapshot topic was made again", func(p *place) func(*part, int32) {
			return func(*part, int32) {
				_, err := kadm.NewClient(p.cl).DeleteTopics(t.Context(), states)
				p.must(err)
				_, err = kadm.NewClient(p.cl).CreateTopic(t.Context(), 2, 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}, states)
				p.must(err)
			}
		}, stream.ErrTopic},
		{"its records were deleted", func(p *place) func(*part, int32) {
			return func(_ *part, moved int32) {
				offsets := kadm.Offsets{}
				ends, err := kadm.NewClient(p.cl).ListEndOffsets(t.Context(), states)
				p.must(err)
				end, _ := ends.Lookup(states, moved)
				offsets.AddOffset(states, moved, end.Offset, -1)
				_, err = kadm.NewClient(p.cl).DeleteRecords(t.Context(), offsets)
				p.must(err)
			}
		}, stream.ErrOffsetMismatch},
		{"the input was truncated", func(p *place) func(*part, int32) {
			return func(*part, int32) {
				p.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
					p.cluster.KeepControl()
					return shorter(req.(*kmsg.OffsetForLeaderEpochRequest)), nil, true
				})
			}
		}, stream.ErrTruncated},
	} {
		for _, off := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, rule off %v", c.name, off), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				ctx := t.Context()
				if off {
					ctx = rule.Without(ctx, rule.RetainedCheck)
				}
				a, back, ok := away(p, ctx, p.config(), c.while(p))
				if ok != (off || c.stops == nil) || back.Retained != off {
					t.Errorf("the partition came back as %+v (%v), the flow ended with %v", back, ok, a.err)
				}
				if !off && c.stops != nil && !errors.Is(a.err, c.stops) {
					t.Errorf("the flow ended with %v, want %v", a.err, c.stops)
				}
			})
		}
	}
}

// shorter answers that the leader epoch ends after one record.
func shorter(req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			answer.Partition, answer.LeaderEpoch, answer.EndOffset = p.Partition, p.LeaderEpoch, 1
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// eager has two partitions with one member, before another one joins.
func eager(p *place) (a *part, conf holdfast.Config[int]) {
	p.t.Helper()
	p.add(1)
	p.produceTo(0, 3)
	p.produceTo(1, 3)
	conf = p.config()
	conf.Member.Protocol = holdfast.Eager
	a = p.part(p.t.Context(), conf)
	a.commits(0, 3)
	a.commits(1, 3)
	return a, conf
}

// In an eager rebalance every partition is revoked. Those that come back, which are most, are not read
// again: neither when a member joins nor when it leaves.
func TestRetainedStateThroughEagerRebalances(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a, conf := eager(p)
	b := p.part(t.Context(), conf)
	if _, ok := b.restoration(1); !ok {
		t.Fatal(b.err)
	}
	stayed, ok := a.restoration(3)
	if !ok || !stayed.Retained {
		t.Fatalf("a partition that stays came back as %+v, %v", stayed, a.err)
	}
	p.produceTo(0, 2)
	p.produceTo(1, 2)
	a.commits(stayed.Partition.Partition, 5)
	b.commits(1-stayed.Partition.Partition, 5)
	p.must(b.end())
	if _, ok := a.restoration(5); !ok {
		t.Fatal(a.err)
	}
	for _, back := range a.restored[3:] {
		if back.Retained != (back.Partition == stayed.Partition) {
			t.Errorf("%v came back as %+v", back.Partition, back)
		}
	}
	p.produceTo(0, 1)
	p.produceTo(1, 1)
	a.commits(0, 6)
	a.commits(1, 6)
	p.must(a.end())
	p.wantStored2(map[string]string{"k0": "6", "k1": "6"})
}

// A rebalance may follow upon a rebalance before what was retained was looked at: it is kept on.
func TestRetainedStateIsKeptOnIfItWasNotLookedAt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a, conf := eager(p)
	// A check begins at the progress record, a restore at the log's start.
	checks := p.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch}, Topic: states, Err: kerr.NotLeaderForPartition, Count: -1,
		When: func(req kmsg.Request) bool { return req.(*kmsg.FetchRequest).Topics[0].Partitions[0].FetchOffset > 0 },
	})
	b := p.part(t.Context(), conf)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p.must(checks.Wait(ctx, 1))
	p.must(b.end())
	if !a.await(func() bool { return a.revoked == 3 }) {
		t.Fatal(a.err)
	}
	checks.Remove()
	if _, ok := a.restoration(4); !ok {
		t.Fatal(a.err)
	}
	if !a.restored[2].Retained || !a.restored[3].Retained {
		t.Errorf("the partitions came back as %+v", a.restored[2:])
	}
}

// What the check is for: a state that another owner has gone on with is not overwritten by an older one.
func TestRetainedStateOfAnOlderOffsetLosesRecords(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{false, true} {
		t.Run(fmt.Sprintf("rule off %v", off), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			ctx := t.Context()
			if off {
				ctx = rule.Without(ctx, rule.RetainedCheck)
			}
			var moved int32
			a, _, ok := away(p, ctx, p.config(), func(b *part, partition int32) {
				moved = partition
				p.produceTo(moved, 2)
				b.commits(moved, 5)
			})
			if !ok {
				t.Fatal(a.err)
			}
			p.produceTo(moved, 1)
			a.commits(moved, 6)
			p.must(a.end())
			got := p.stored2()[fmt.Sprintf("k%d", moved)]
			if want := map[bool]string{false: "6", true: "4"}[off]; got != want {
				t.Errorf("I2: 6 records were counted as %s, want %s", got, want)
			}
		})
	}
}

// Nothing is retained beyond the bounds, and under Unfenced.
func TestRetainedStateIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*holdfast.Config[int])
	}{
		{"bytes", func(c *holdfast.Config[int]) { c.Restore.RetainBytes = 200 }},
		{"age", func(c *holdfast.Config[int]) { c.Restore.RetainFor = time.Nanosecond }},
		{"bytes off", func(c *holdfast.Config[int]) { c.Restore.RetainBytes = -1 }},
		{"age off", func(c *holdfast.Config[int]) { c.Restore.RetainFor = -1 }},
		{"Unfenced", func(c *holdfast.Config[int]) { c.Guarantee = holdfast.Unfenced }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			conf := p.config()
			c.change(&conf)
			a, back, ok := away(p, t.Context(), conf, nothing)
			if !ok || back.Retained || back.Keys != 1 {
				t.Errorf("the partition came back as %+v, %v", back, a.err)
			}
		})
	}
}

// An ownership that was lost leaves nothing behind, though the same member gets the partition again.
// Public case F1.
func TestRetainedStateIsNotOfALostOwnership(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produceTo(0, 3)
	a := p.part(t.Context(), p.config())
	a.commits(0, 3)
	p.expel()
	back, ok := a.restoration(2)
	if !ok || back.Retained || back.Keys != 1 {
		t.Errorf("the partition came back as %+v, %v", back, a.err)
	}
}

// stored2 reads the states of both partitions.
func (p *place) stored2() map[string]string {
	p.t.Helper()
	got := map[string]string{}
	for partition := range int32(2) {
		maps.Copy(got, p.storedIn(partition))
	}
	return got
}

func (p *place) wantStored2(want map[string]string) {
	p.t.Helper()
	if got := p.stored2(); !maps.Equal(got, want) {
		p.t.Errorf("stored %v, want %v", got, want)
	}
}
