package member_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// I2: a flow began while a broker was stopped that is the group's coordinator and leads the snapshot partition.
// It wakes, and for a moment answers as of before that: there is neither an offset nor a snapshot, and an owner
// would begin the flow a second time, at the end of the input.
func TestBegunTwiceAtTwoDeposedBrokers(t *testing.T) {
	p := newPlace(t)
	conf := func() holdfast.Config[int] {
		c := p.config()
		c.Commit = holdfast.Commit{Persist: time.Millisecond, Interval: time.Millisecond}
		return c
	}
	p.produce("k", 1)
	p.must(until(p, conf(), 1))
	p.produce("k", 2) // not folded yet
	var armed atomic.Bool
	var left atomic.Int32
	left.Store(1)
	p.deposed(states, 0, 1, &armed)
	p.cluster.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if !req.RequireStable || !armed.Load() || left.Add(-1) < 0 {
			return nil, nil, false
		}
		gp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		gp.Offset, gp.LeaderEpoch = -1, -1
		gt := kmsg.NewOffsetFetchResponseGroupTopic()
		gt.Topic, gt.TopicID, gt.Partitions = input, req.Groups[0].Topics[0].TopicID, append(gt.Partitions, gp)
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.Topics = "flow", append(g.Topics, gt)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	c := conf()
	c.Start.New = holdfast.Latest
	c.Hooks = []holdfast.Hooks{{Assigned: func(e stream.Assigned) { t.Logf("assigned at %d", e.Committed) }}}
	armed.Store(true)
	p.must(until(p, c, 3))
	p.wantStored(map[string]string{"k": "3"})
}
