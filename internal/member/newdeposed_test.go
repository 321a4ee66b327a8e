package member_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// I2: a flow began while a broker was stopped that is the group's coordinator and leads the snapshot partition.
// It wakes, and for a moment answers as of before that: there is neither an offset nor a snapshot, and an owner
// would begin the flow a second time, at the end of the input.
func TestBegunTwiceAtTwoDeposedBrokers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 1)
	p.must(until(p, p.config(), 1))
	p.produce("k", 2) // not folded yet
	var armed atomic.Bool
	armed.Store(true)
	p.deposed(states, 0, 1, &armed)
	p.noOffset()
	c := p.config()
	c.Start.New = holdfast.Latest
	p.must(until(p, c, 3))
	p.wantStored(map[string]string{"k": "3"})
}

// The group's coordinator alone was deposed, before the flow began: it knows of no offset, and the snapshots are
// those that there are. One such answer must neither stop the flow nor have it fold everything again.
func TestNoOffsetAtADeposedCoordinator(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]holdfast.Disagreement{"the flow stops where there is none": holdfast.StopAndAsk, "it rebuilds there": holdfast.Rebuild} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 1)
			p.must(until(p, p.config(), 1))
			p.produce("k", 1)
			p.noOffset()
			restored := int64(-1)
			c := p.config()
			c.Start.Disagreement = policy
			c.Hooks = []holdfast.Hooks{{Restored: func(e stream.Restored) { restored = e.Start }}}
			if err := until(p, c, 2); err != nil {
				t.Errorf("I7: one answer of a deposed coordinator has stopped the flow: %v", err)
			} else if restored != 1 {
				t.Errorf("I4: one answer of a deposed coordinator had the flow begin at %d again", restored)
			}
		})
	}
}

// noOffset has the next fetch of the stable offset answered as by a coordinator that knows of none.
func (p *place) noOffset() {
	var told atomic.Bool
	p.cluster.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if !req.RequireStable || !told.CompareAndSwap(false, true) {
			return nil, nil, false
		}
		return noOffsetOf(req), nil, true
	})
}

// noOffsetOf is the answer to a fetch that nothing is committed for partition 0 of the input.
func noOffsetOf(req *kmsg.OffsetFetchRequest) kmsg.Response {
	gp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	gp.Offset, gp.LeaderEpoch = -1, -1
	gt := kmsg.NewOffsetFetchResponseGroupTopic()
	gt.Topic, gt.TopicID, gt.Partitions = input, req.Groups[0].Topics[0].TopicID, append(gt.Partitions, gp)
	g := kmsg.NewOffsetFetchResponseGroup()
	g.Group, g.Topics = "flow", append(g.Topics, gt)
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	resp.Groups = append(resp.Groups, g)
	return resp
}
