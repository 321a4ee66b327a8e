package member_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// R21: a leader that was deposed and has not heard of it answers with the end of its own, shorter log. One
// such answer must not pass for an input that has lost what a state has folded.
func TestEndOfADeposedLeader(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]int32{"once": 1, "always": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 3)
			p.must(until(p, p.config(), 3))
			p.produce("k", 3)
			// A key that is ahead of the committed offset, which another one held back.
			one := snapshot.Record{Key: []byte("ahead"), Value: []byte("1")}
			one.Applied, one.Steps = []int64{4}, 1
			ahead, err := snapshot.Encode(one)
			p.must(err)
			p.must(p.cl.ProduceSync(t.Context(), &kgo.Record{Topic: states, Key: ahead.Key, Value: ahead.Value, Headers: headers(ahead.Headers)}).FirstErr())
			var armed atomic.Bool
			p.deposed(input, 3, answers, &armed)
			c := p.config()
			c.Hooks = []holdfast.Hooks{{Assigned: func(stream.Assigned) { armed.Store(true) }}}
			err = until(p, c, 6)
			if answers == 1 && err != nil {
				t.Errorf("I7: one answer of a deposed leader has stopped the flow: %v", err)
			}
			if answers > 1 && err == nil {
				t.Error("R21: a state is ahead of the input's end, and nothing was said")
			}
		})
	}
}

// The same of the snapshot partition: the states up to the end of such a log are those of an older commit.
func TestStatesOfADeposedLeader(t *testing.T) {
	t.Parallel()
	for name, rebuild := range map[string]bool{"the flow stops where offset and states disagree": false, "it rebuilds there": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 1)
			p.must(until(p, p.config(), 1))
			end := p.end(states)
			p.produce("k", 1)
			p.must(until(p, p.config(), 2))
			p.produce("k", 1)
			var armed atomic.Bool
			p.deposed(states, end, 1, &armed)
			c := p.config()
			if rebuild {
				c.Start.Disagreement = holdfast.Rebuild
			}
			restored := int64(-1)
			c.Hooks = []holdfast.Hooks{{
				Assigned: func(stream.Assigned) { armed.Store(true) },
				Restored: func(e stream.Restored) { restored = e.Start },
			}}
			if err := until(p, c, 3); err != nil {
				t.Errorf("I7: one answer of a deposed leader has stopped the flow: %v", err)
			} else if restored != 2 {
				t.Errorf("I7: one answer of a deposed leader had the flow begin at %d again", restored)
			}
		})
	}
}

func (p *place) end(topic string) int64 {
	p.t.Helper()
	ends, err := kadm.NewClient(p.cl).ListEndOffsets(p.t.Context(), topic)
	p.must(err)
	o, _ := ends.Lookup(topic, 0)
	return o.Offset
}

// deposed has the end of a topic asked for, once it is armed, and answers so many times with one that is not
// the end any more.
func (p *place) deposed(topic string, end int64, answers int32, armed *atomic.Bool) {
	var left atomic.Int32
	left.Store(answers)
	p.cluster.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		if !armed.Load() || len(req.Topics) != 1 || req.Topics[0].Topic != topic || req.Topics[0].Partitions[0].Timestamp != -1 || left.Add(-1) < 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = topic
		rp := kmsg.NewListOffsetsResponseTopicPartition()
		rp.Offset, rp.Timestamp = end, -1
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
}

func headers(hs []stream.Header) (out []kgo.RecordHeader) {
	for _, h := range hs {
		out = append(out, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}
