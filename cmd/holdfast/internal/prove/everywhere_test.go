package prove

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/kafka"
)

// TestEverywhereAsksEachBroker has one broker of three that learns of a topic late.
func TestEverywhereAsksEachBroker(t *testing.T) {
	t.Parallel()
	const late, answersLate, topic = 2, 3, "orders"
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var asked atomic.Int32
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.MetadataRequest)
		if len(req.Topics) == 0 || c.CurrentNode() != late || asked.Add(1) > answersLate {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		unknown := kmsg.NewMetadataResponseTopic()
		unknown.Topic, unknown.ErrorCode = req.Topics[0].Topic, kerr.UnknownTopicOrPartition.Code
		resp.Topics = append(resp.Topics, unknown)
		return resp, nil, true
	})
	cl, err := kafka.Config{Brokers: c.ListenAddrs()}.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if err := everywhere(within(t), cl, topic, true); err != nil || asked.Load() != answersLate+1 {
		t.Errorf("the late broker was asked %d times, want %d: %v", asked.Load(), answersLate+1, err)
	}
	if err := everywhere(within(t), cl, "nothing", false); err != nil {
		t.Errorf("a topic that is nowhere: %v", err)
	}
}
