package wire

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A topic has just been created. One broker tells of it, and the next one that is asked has not heard yet: it is not
// absent for that (R28).
func TestCreatedTopicIsNotAbsentAtOneLook(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	told := 0
	cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		meta := req.(*kmsg.MetadataRequest)
		if len(meta.Topics) != 1 || meta.Topics[0].Topic == nil || *meta.Topics[0].Topic != "states" || cluster.TopicInfo("states") == nil {
			return nil, nil, false
		}
		if told++; told != 2 {
			return nil, nil, false
		}
		resp := meta.ResponseKind().(*kmsg.MetadataResponse)
		one := kmsg.NewMetadataResponseTopic()
		one.Topic, one.ErrorCode = meta.Topics[0].Topic, kerr.UnknownTopicOrPartition.Code
		resp.Topics = append(resp.Topics, one)
		return resp, nil, true
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	f, err := checkSnapshotTopic(within(t, time.Minute), cl, "states", 2, &TopicConfig{Replicas: 1})
	if err != nil || !f.Exists || f.Partitions != 2 || f.CleanupPolicy != "compact" {
		t.Errorf("I7: after %d answers: facts %+v, %v", told, f, err)
	}
	if told < 3 {
		t.Errorf("the topic was asked about %d times since it was created, and the second time it was told to be absent", told)
	}
}
