package wire

import "github.com/twmb/franz-go/pkg/kgo"

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
