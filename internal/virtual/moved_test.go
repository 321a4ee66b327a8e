//go:build synctests

package virtual

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// starts has the first offset of a topic asked for, and answers as told says, -1: as it is.
func (w *world) starts(topic string, told func() int64) {
	w.cluster.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		if len(req.Topics) != 1 || req.Topics[0].Topic != topic || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].Timestamp != -2 {
			return nil, nil, false
		}
		start := told()
		if start < 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = topic
		rp := kmsg.NewListOffsetsResponseTopicPartition()
		rp.Partition, rp.Offset, rp.Timestamp = req.Topics[0].Partitions[0].Partition, start, -1
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
}

// I2 and R25: records that were not folded are deleted while the worker looks whether there are any. What it read
// from the new start of the log on says nothing of them.
func TestLogStartMovesUnderALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := setting{Guarantee: holdfast.FencedState}
		prompt(&s)
		w := newWorld(t, s, 1, newStates())
		w.send(few(2)...)
		w.send(few(3)...)
		trimmed, asked := false, 0
		w.starts(input, func() int64 {
			if !trimmed {
				return -1
			}
			if asked++; asked == 1 { // the look begins before
				return 0
			}
			return -1
		})
		w.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			req := kreq.(*kmsg.FetchRequest)
			if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
				return nil, nil, false
			}
			at := &req.Topics[0].Partitions[0]
			id := w.cluster.TopicInfo(input).TopicID
			if req.Topics[0].TopicID != id || at.PartitionMaxBytes == 64<<10 { // the look's
				return nil, nil, false
			}
			if at.FetchOffset < 2 { // nothing behind the first batch comes along
				at.PartitionMaxBytes = 1
				return nil, nil, false
			}
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = 5, 5, 0
			rt := kmsg.NewFetchResponseTopic()
			rt.TopicID, rt.Partitions = id, append(rt.Partitions, rp)
			resp := req.ResponseKind().(*kmsg.FetchResponse)
			resp.Topics = append(resp.Topics, rt)
			time.Sleep(100 * time.Millisecond)
			return resp, nil, true
		})
		m := w.start("m")
		m.await(time.Minute, "two records are committed", func(e holdfasttest.Event) bool {
			return e.Kind == holdfasttest.EventCommitted && e.Offset == 2
		})
		os := kadm.Offsets{}
		os.AddOffset(input, 0, 4, -1)
		if rs, err := kadm.NewClient(w.client).DeleteRecords(t.Context(), os); err != nil || rs.Error() != nil {
			t.Fatal(err, rs.Error())
		}
		trimmed = true
		time.Sleep(time.Minute)
		m.asked = true
		m.cancel()
		<-m.done
		for _, e := range m.rec.Member().Events {
			if e.Kind == holdfasttest.EventCommitted && e.Offset > 2 {
				t.Errorf("I2: offset %d is committed, and the records at 2 and 3 were not folded", e.Offset)
			}
		}
		if asked < 2 {
			t.Errorf("the log's start was asked for %d times", asked)
		}
		w.close()
	})
}

// I6 and R28: one answer has the snapshot topic deleted from by its policy. A member that runs does not stop at
// that.
func TestPolicyAtNoSingleAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := setting{Guarantee: holdfast.FencedState}
		prompt(&s)
		w := newWorld(t, s, 1, newStates())
		w.send(few(2)...)
		m := w.start("m")
		w.committed(time.Minute)
		asked := 0
		w.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			req := kreq.(*kmsg.DescribeConfigsRequest)
			if len(req.Resources) != 1 || req.Resources[0].ResourceName != group+"-snapshots" {
				return nil, nil, false
			}
			if asked++; asked > 1 {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
			rr := kmsg.NewDescribeConfigsResponseResource()
			rr.ResourceType, rr.ResourceName = req.Resources[0].ResourceType, req.Resources[0].ResourceName
			rc := kmsg.NewDescribeConfigsResponseResourceConfig()
			rc.Name, rc.Value = "cleanup.policy", kmsg.StringPtr("delete")
			rr.Configs = append(rr.Configs, rc)
			resp.Resources = append(resp.Resources, rr)
			return resp, nil, true
		})
		time.Sleep(2 * time.Minute)
		select {
		case <-m.done:
			t.Errorf("I6: one answer has stopped the member: %v", m.err)
		default:
		}
		if asked < 2 {
			t.Errorf("the policy was asked for %d times", asked)
		}
		w.end()
		w.close()
	})
}
