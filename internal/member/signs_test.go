package member_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// R28: the snapshot topic was deleted and made again, and one fetch of the offset is answered that there is
// none: that is a flow that begins anew, in silence, for who looks once.
func TestBeginsNewAtNoSingleAnswer(t *testing.T) {
	t.Parallel()
	for name, guarantee := range map[string]holdfast.Guarantee{
		"unfenced": holdfast.Unfenced, "state": holdfast.FencedState, "outputs": holdfast.FencedOutputs,
	} {
		for position, where := range map[string]holdfast.Position{"earliest": holdfast.Earliest, "latest": holdfast.Latest} {
			t.Run(name+"/"+position, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				p.produce("k", 3)
				c := p.config()
				c.Guarantee = guarantee
				if guarantee == holdfast.FencedOutputs {
					c.Commit = holdfast.Commit{}
				}
				p.must(until(p, c, 3))
				p.remake(states)
				p.produce("k", 2)
				p.noOffset()
				c.Start.New = where
				if err := until(p, c, 5); !errors.Is(err, stream.ErrOffsetMismatch) {
					t.Errorf("I2: a flow with offset 3 has begun anew at one answer: it ended with %v, want %v", err, stream.ErrOffsetMismatch)
				}
			})
		}
	}
}

// R28: a pipe takes another client's group over. Where it begins is that one's offset, whatever one answer says.
func TestPipeTakesAGroupOverAtNoSingleAnswer(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]holdfast.Position{"earliest": holdfast.Earliest, "latest": holdfast.Latest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 5)
			p.commitAsAnother(2)
			p.noOffset()
			if start := p.pipeBegins(holdfast.Start{New: where}); start != 2 {
				t.Errorf("I2: the group has committed offset 2, and the pipe begins at %d", start)
			}
		})
	}
}

// R28: the group's coordinator does not know the group that its member asks in. That is no word about offsets.
func TestGroupIsUnknownForAMoment(t *testing.T) {
	t.Parallel()
	for name, guarantee := range map[string]holdfast.Guarantee{
		"unfenced": holdfast.Unfenced, "state": holdfast.FencedState, "outputs": holdfast.FencedOutputs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 3)
			c := p.config()
			c.Guarantee = guarantee
			if guarantee == holdfast.FencedOutputs {
				c.Commit = holdfast.Commit{}
			}
			p.must(until(p, c, 3))
			p.produce("k", 2)
			var restored []int64
			var known atomic.Bool
			c.Hooks = []holdfast.Hooks{{
				Assigned: func(e stream.Assigned) {
					if e.Committed < 0 {
						t.Error("I2: a group that is unknown was taken for one that has committed nothing")
					}
				},
				Lost:     func(stream.Released) { known.Store(true) },
				Restored: func(e stream.Restored) { restored = append(restored, e.Start) },
			}}
			p.unknownGroup(&known)
			if err := until(p, c, 5); err != nil {
				t.Fatalf("I7: a group that is unknown for a moment has stopped the flow: %v", err)
			}
			if len(restored) != 1 || restored[0] != 3 {
				t.Errorf("I2: folding began at %v, want [3]", restored)
			}
			p.wantStored(map[string]string{"k": "5"})
		})
	}
}

// R28: one answer says that the leader epoch of what was folded ends before it.
func TestTruncationAtNoSingleAnswer(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]holdfast.Disagreement{"the flow stops where it is true": holdfast.StopAndAsk, "it rebuilds there": holdfast.Rebuild} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 3)
			p.must(until(p, p.config(), 3))
			p.produce("k", 1)
			var told atomic.Bool
			p.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				p.cluster.KeepControl()
				req := kreq.(*kmsg.OffsetForLeaderEpochRequest)
				if len(req.Topics) != 1 || req.Topics[0].Topic != input || !told.CompareAndSwap(false, true) {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
				rt, rp := kmsg.NewOffsetForLeaderEpochResponseTopic(), kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				rp.EndOffset, rp.LeaderEpoch = 1, 0
				rt.Topic, rt.Partitions = input, append(rt.Partitions, rp)
				resp.Topics = append(resp.Topics, rt)
				return resp, nil, true
			})
			restored := int64(-1)
			c := p.config()
			c.Start.Disagreement = policy
			c.Hooks = []holdfast.Hooks{{Restored: func(e stream.Restored) { restored = e.Start }}}
			if err := until(p, c, 4); err != nil {
				t.Errorf("I7: one answer about a leader epoch has stopped the flow: %v", err)
			} else if restored != 3 {
				t.Errorf("I4: one answer about a leader epoch had the flow begin at %d again", restored)
			}
			if !told.Load() {
				t.Error("no leader epoch was asked for")
			}
		})
	}
}

// R28: a leader that was deposed has the input end before what was folded, for longer than one look. It hears of its
// successor within a moment.
func TestInputIsNotTruncatedForAMoment(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	p.must(until(p, p.config(), 3))
	p.produce("k", 1)
	var armed atomic.Bool
	p.deposed(input, 1, 4, &armed) // of two that a look asks for
	c := p.config()
	c.Hooks = []holdfast.Hooks{{Assigned: func(stream.Assigned) { armed.Store(true) }}}
	if err := until(p, c, 4); err != nil {
		t.Errorf("I7: two looks at the end of the input have stopped the flow: %v", err)
	}
}

// R28: one answer has the snapshot partition end where it begins. What a policy allows where there is nothing is
// not done at that answer.
func TestStatesAreDroppedAtNoSingleAnswer(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]holdfast.Disagreement{
		"adopt empty": holdfast.AdoptEmpty, "rebuild": holdfast.Rebuild, "stop": holdfast.StopAndAsk,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 3)
			p.must(until(p, p.config(), 3))
			p.produce("k", 1)
			var armed atomic.Bool
			p.deposed(states, 0, 1, &armed)
			c := p.config()
			c.Start.Disagreement = policy
			c.Hooks = []holdfast.Hooks{{Assigned: func(stream.Assigned) { armed.Store(true) }}}
			p.must(until(p, c, 4))
			if got := fmt.Sprint(p.stored()["k"]); got != "4" {
				t.Errorf("I2: the state of the key is %s, want 4: it was dropped at one answer", got)
			}
		})
	}
}

// A partition that never had an offset begins anew, although others of its group have one and its id has been
// initialised before: its owner was killed before the first commit.
func TestPartitionWithoutAnOffsetBegins(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.widen(2)
	p.produce("k", 3)
	p.commitAsAnother(2)
	before, err := p.k.Client(kgo.TransactionalID(fence.TransactionalID("flow", states, 1)))
	p.must(err)
	defer before.Close()
	if _, _, err := before.ProducerID(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := p.config()
	c.Start.Disagreement = holdfast.AdoptEmpty
	var mu sync.Mutex
	restored, tookOver := map[int32]int64{}, map[int32]bool{}
	c.Hooks = []holdfast.Hooks{{
		Assigned: func(e stream.Assigned) { mu.Lock(); defer mu.Unlock(); tookOver[e.Partition.Partition] = e.TookOver },
		Restored: func(e stream.Restored) {
			mu.Lock()
			defer mu.Unlock()
			if restored[e.Partition.Partition] = e.Start; len(restored) == 2 {
				cancel()
			}
		},
	}}
	f, err := holdfast.New(c)
	p.must(err)
	p.must(f.Run(ctx))
	mu.Lock()
	defer mu.Unlock()
	if want := map[int32]int64{0: 2, 1: 0}; !maps.Equal(restored, want) || !tookOver[1] {
		t.Errorf("I7: the partitions begin at %v, want %v; taken over: %v", restored, want, tookOver)
	}
}

// R28: Check says of a start what it would make of the second answer, too.
func TestCheckRefusesAtNoSingleAnswer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	p.must(until(p, p.config(), 3))
	var told atomic.Bool
	p.cluster.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if req.RequireStable || req.Groups[0].Group != "flow" || !told.CompareAndSwap(false, true) {
			return nil, nil, false
		}
		return noOffsetOf(req), nil, true
	})
	f, err := holdfast.New(p.config())
	p.must(err)
	if _, err := f.Check(t.Context()); err != nil || !told.Load() {
		t.Errorf("I7: one answer has Check refuse a start: %v", err)
	}
}

// commitAsAnother commits an offset of partition 0 in the group, as another program does.
func (p *place) commitAsAnother(next int64) {
	p.t.Helper()
	os := kadm.Offsets{}
	os.AddOffset(input, 0, next, -1)
	rs, err := kadm.NewClient(p.cl).CommitOffsets(p.t.Context(), "flow", os)
	p.must(err)
	p.must(rs.Error())
}

// widen gives input and snapshot topic so many partitions.
func (p *place) widen(partitions int) {
	p.t.Helper()
	for _, topic := range []string{input, states} {
		rs, err := kadm.NewClient(p.cl).UpdatePartitions(p.t.Context(), partitions, topic)
		p.must(err)
		p.must(rs.Error())
	}
}

// remake deletes a compacted topic and makes it again.
func (p *place) remake(topic string) {
	p.t.Helper()
	_, err := kadm.NewClient(p.cl).DeleteTopic(p.t.Context(), topic)
	p.must(err)
	p.create(topic, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")})
}

// unknownGroup has each fetch of the stable offset answered by a coordinator that has no such group, until it is
// known.
func (p *place) unknownGroup(known *atomic.Bool) {
	p.cluster.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if !req.RequireStable || known.Load() {
			return nil, nil, false
		}
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.ErrorCode = "flow", kerr.GroupIDNotFound.Code
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
}

// pipeBegins runs a pipe in the group until it is restored, and returns where it begins.
func (p *place) pipeBegins(start holdfast.Start) int64 {
	p.t.Helper()
	p.create("out", nil)
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	begins := int64(-1)
	c := pipe.Config{
		Kafka: p.k, Group: "flow", Inputs: []string{input}, Outputs: []string{"out"}, Progress: states, Start: start,
		Member: holdfast.Member{HeartbeatInterval: 100 * time.Millisecond},
		Func: func(_ context.Context, r stream.Record, out *pipe.Out) error {
			out.Send(stream.Message{Topic: "out", Key: r.Key, Value: r.Value})
			return nil
		},
		Hooks: []holdfast.Hooks{{Restored: func(e stream.Restored) { begins = e.Start; cancel() }}},
	}
	one, err := pipe.New(c)
	p.must(err)
	p.must(one.Run(ctx))
	return begins
}
