package wire

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// Partitioner sends records of the topics that have a fixed partition to the one that they name, and
// everything else where Kafka's default partitioner would: murmur2 over the key, as Java's clients.
type Partitioner struct {
	// Fixed returns the one partition of a topic that is written to, if there is one. The caller sets it
	// in the records too.
	Fixed func(topic string) (partition int32, ok bool)
}

// ForTopic implements kgo.Partitioner.
func (p Partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	if _, ok := p.Fixed(topic); ok {
		return kgo.ManualPartitioner().ForTopic(topic)
	}
	return kgo.StickyKeyPartitioner(nil).ForTopic(topic)
}

// BatchLimit is what a client may send in one batch to a topic that takes n bytes, 0: not known. The client takes no
// smaller limit than 512, and none above the largest request that it writes (socket.request.max.bytes of the brokers,
// 100 MiB by default).
func BatchLimit(n int) int32 {
	if n <= 0 {
		n = 1_000_012 // the client's own, just below the brokers' default
	}
	return int32(min(max(n+int(stream.LengthBytes(n)), 512), 100<<20)) // it counts the length of the batch
}
