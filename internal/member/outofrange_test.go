package member_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// I7: a broker that led the input was stopped and wakes. A process that starts at that moment has its metadata
// from it, with the epoch of then, and fetches from it behind the end of its shorter log. Another one leads, and
// one answer of the deposed one is no sign that records are gone.
func TestFetchFromADeposedLeader(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 2)
	p.must(until(p, p.config(), 2))
	p.produce("k", 1)
	var armed, answered atomic.Bool
	id := p.topicID(input)
	p.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if !armed.Load() || len(req.Topics) != 1 || req.Topics[0].TopicID != id || !answered.CompareAndSwap(false, true) {
			return nil, nil, false
		}
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.ErrorCode, rp.HighWatermark = kerr.OffsetOutOfRange.Code, -1
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID, rt.Partitions = input, id, append(rt.Partitions, rp)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	c := p.config()
	c.Hooks = []holdfast.Hooks{{Assigned: func(stream.Assigned) { armed.Store(true) }}}
	if err := until(p, c, 3); err != nil {
		t.Errorf("I7: one answer of a deposed leader has stopped the flow: %v", err)
	}
	if !answered.Load() {
		t.Error("nothing was fetched from the deposed leader")
	}
	p.wantStored(map[string]string{"k": "3"})
}

func (p *place) topicID(topic string) [16]byte {
	p.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(p.t.Context(), p.cl)
	p.must(err)
	return resp.Topics[0].TopicID
}
