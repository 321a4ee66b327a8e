package member_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// I4: the group's coordinator and the leader of the snapshot partition were deposed together, as when the broker
// that was both was stopped and wakes. Each answers once as of an older commit, and the two agree.
func TestCoordinatorAndLeaderDeposed(t *testing.T) {
	p := newPlace(t)
	p.create("out", nil)
	conf := func() holdfast.Config[int] {
		c := p.config()
		c.Guarantee, c.Outputs, c.Commit = holdfast.FencedOutputs, []string{"out"}, holdfast.Commit{Interval: time.Millisecond}
		c.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
			k.Emit(stream.Message{Topic: "out", Key: r.Key, Value: r.Value})
			return count(1)(ctx, k, r)
		}
		return c
	}
	p.produce("k", 1)
	p.must(until(p, conf(), 1))
	end := p.end(states)
	offsets, err := kadm.NewClient(p.cl).FetchOffsets(t.Context(), "flow")
	p.must(err)
	o, _ := offsets.Lookup(input, 0)
	p.produce("k", 1)
	p.must(until(p, conf(), 2))
	p.produce("k", 1)
	var armed atomic.Bool
	var left atomic.Int32
	left.Store(1)
	p.deposed(states, end, 1, &armed)
	p.cluster.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if !req.RequireStable || left.Add(-1) < 0 {
			return nil, nil, false
		}
		armed.Store(true)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group = "flow"
		gt := kmsg.NewOffsetFetchResponseGroupTopic()
		gt.Topic, gt.TopicID = input, req.Groups[0].Topics[0].TopicID
		gp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		gp.Offset, gp.LeaderEpoch, gp.Metadata = o.At, o.LeaderEpoch, &o.Metadata
		gt.Partitions = append(gt.Partitions, gp)
		g.Topics = append(g.Topics, gt)
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	c := conf()
	p.must(until(p, c, 3))
	outputs := 0
	_, err = wire.Log{Client: p.cl, Topic: "out"}.Read(t.Context(), wire.ReadOptions{To: p.end("out"), Committed: true}, func(*kgo.Record) error {
		outputs++
		return nil
	})
	p.must(err)
	if outputs != 3 {
		t.Errorf("I4: %d outputs of 3 records", outputs)
	}
}
