package pipe_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// An input that gets more partitions moves the progress records of those behind it. An offset never
// comes from the progress of another partition:
//
//  1. The pipe reads a (1 partition) and b (2): b/0 has progress partition 1, b/1 has 2.
//  2. a gets a second partition, the progress topic a fourth. b/0 has progress partition 2.
//  3. b/0 is at 2 and finds the progress record of b/1, at 9.
func TestFirstInputOfSeveralGetsMorePartitions(t *testing.T) {
	t.Parallel()
	t.Run("transaction.version 2", func(t *testing.T) {
		t.Parallel()
		firstInputGrows(t, embedded(t, "a", "b:2", "out"))
	})
	t.Run("transaction.version 1", func(t *testing.T) {
		t.Parallel()
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(kversion.V3_8_0()), kfake.SeedTopics(1, "a", "out"), kfake.SeedTopics(2, "b"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		firstInputGrows(t, newLab(t, kafka.Config{Brokers: cluster.ListenAddrs()}))
	})
}

func firstInputGrows(t *testing.T, l *lab) {
	copyAll := func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward("out"); return nil }
	c := l.config(copyAll)
	c.Inputs = []string{"a", "b"}
	fill := func(topic string, partition int32, n int) {
		for range n {
			l.produce(&kgo.Record{Topic: topic, Partition: partition, Value: []byte("x")})
		}
	}
	fill("a", 0, 1)
	fill("b", 0, 2)
	fill("b", 1, 9)
	r := l.start(t.Context(), c)
	r.untilCommitted("a", 0, 1)
	r.untilCommitted("b", 0, 2)
	r.untilCommitted("b", 1, 9)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.admin.UpdatePartitions(l.ctx, 2, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.admin.UpdatePartitions(l.ctx, 4, "copy-progress"); err != nil {
		t.Fatal(err)
	}
	l = newLab(t, l.kafka)
	fill("b", 0, 10)
	c.Hooks = append(c.Hooks, stream.Hooks{Restored: func(e stream.Restored) {
		if e.Partition.Topic == "b" && e.Partition.Partition == 0 {
			t.Errorf("b/0 begins at %d, with an offset of 2 and the progress of b/1", e.Start)
		}
	}})
	if err := l.start(t.Context(), c).wait(); err == nil {
		t.Error("the pipe goes on")
	}
	for p, want := range map[int32]int64{0: 2, 1: 9} {
		if o := l.committed("copy", "b", p).At; o != want {
			t.Errorf("b/%d is committed at %d, want %d", p, o, want)
		}
	}
}
