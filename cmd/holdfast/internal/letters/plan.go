package letters

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Replay says which letters go back, and where to.
type Replay struct {
	Filter
	To    string // the topic they are sent to; "": the topic of each one's origin
	ByKey bool   // the partition is that of the key, in the origin's topic too
}

// Item is one letter that goes back.
type Item struct {
	Letter  Place  `json:"letter"`
	Origin  Origin `json:"origin"`
	To      Target `json:"to"`
	Attempt int    `json:"attempt"` // that the replay asks for
	Reason  string `json:"reason,omitempty"`
}

// Target is where a letter is sent to.
type Target struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// String returns "topic/partition".
func (t Target) String() string { return fmt.Sprintf("%s/%d", t.Topic, t.Partition) }

// Plan is a replay before it is done.
type Plan struct {
	Items      []Item // in the order in which they are sent
	Unreadable []Row  // letters that are meant and have no origin: they are not sent
	Repeats    int    // letters that are left out because their record has another one
	replay     Replay
}

// Plan reads the letters and decides where each one goes. Nothing is sent. The partition in the topic of
// the origin is the origin's, because that is where the record's key was, whatever partitioner put it
// there. Only if the topic has no such partition, or with ByKey, or in another topic, it is the
// one of the key by Kafka's murmur2, and for a letter without a key the origin's number modulo the
// number of partitions.
func (r Replay) Plan(ctx context.Context) (*Plan, error) {
	if r.To == r.Topic {
		return nil, stream.NewError("replay", fmt.Errorf("%w: %s would be replayed to itself", stream.ErrConfig, r.Topic)).
			Hinted("name another topic by --to, or leave it out")
	}
	p := &Plan{replay: r}
	cl, err := r.Kafka.Client()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	rows, err := r.Rows(ctx)
	if err != nil {
		return nil, err
	}
	topics := map[string]wire.Facts{}
	for _, row := range rows {
		p.Repeats += row.Repeats
		if row.Fault != "" {
			p.Unreadable = append(p.Unreadable, row)
			continue
		}
		topic := r.To
		if topic == "" {
			topic = row.Origin.Topic
		}
		if _, ok := topics[topic]; !ok {
			if topics[topic], err = r.target(ctx, cl, topic); err != nil {
				return nil, err
			}
		}
		if err := r.sameTopic(row, topics[topic]); err != nil {
			return nil, err
		}
		p.Items = append(p.Items, Item{
			Letter: row.Place, Origin: *row.Origin, Attempt: max(row.Attempt, 1) + 1, Reason: row.Reason,
			To: Target{topic, r.partition(row, topics[topic].Partitions)},
		})
	}
	return p, nil
}

func (r Replay) target(ctx context.Context, cl *kgo.Client, topic string) (wire.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	f, err := wire.TopicShape(ctx, cl, topic)
	if err != nil {
		return f, kafka.Explain(err)
	}
	at := stream.Partition{Topic: topic, Partition: -1}
	switch {
	case topic == r.Topic:
		return f, stream.NewError("replay", fmt.Errorf("%w: letters of this topic come from it", stream.ErrTopic)).At(at, -1).
			Hinted("name another topic by --to, or leave them out by --origin-topic")
	case !f.Exists:
		return f, stream.NewError("replay", fmt.Errorf("%w: it does not exist", stream.ErrTopic)).At(at, -1).
			Hinted("name another topic by --to, leave its letters out by --origin-topic, or create it")
	}
	return f, nil
}

// sameTopic refuses to send a letter to a topic that only has the name of the one it came from, unless
// that topic was named by the caller.
func (r Replay) sameTopic(row Row, f wire.Facts) error {
	id := row.origin.TopicID
	if r.To != "" || id == ([16]byte{}) || f.ID == ([16]byte{}) || id == f.ID {
		return nil
	}
	return stream.NewError("replay", fmt.Errorf("%w: it was created again after the record of letter %s was read",
		stream.ErrTopic, row.Place)).At(stream.Partition{Topic: f.Topic, Partition: -1}, -1).
		Hinted("if the letters belong into the topic of today: --origin-topic %[1]s --to %[1]s", f.Topic)
}

func (r Replay) partition(row Row, partitions int32) int32 {
	origin := row.Origin.Partition
	back := r.To == "" || r.To == row.Origin.Topic
	if origin < partitions && (row.key == nil || back && !r.ByKey) {
		return origin
	}
	if row.key == nil {
		return origin % partitions
	}
	// Kafka's own: for a record with a key this partitioner has no state.
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: row.key}, int(partitions)))
}
