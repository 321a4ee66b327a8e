package letters

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

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

// Refused is a letter that is set aside: the others are sent.
type Refused struct {
	Letter   Place   `json:"letter"`
	Origin   Origin  `json:"origin"`
	FailedAt *Origin `json:"failed_at,omitempty"` // only where it is not the origin
	Why      string  `json:"why"`
	err      error
}

// Err is why it is set aside.
func (r Refused) Err() error { return r.err }

func refusedRow(row Row, err error) Refused {
	return Refused{Letter: row.Place, Origin: *row.Origin, FailedAt: row.FailedAt, Why: err.Error(), err: err}
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
	Refused    []Refused
	Repeats    int // letters that are left out because their record has another one
	replay     Replay
}

// Plan reads the letters and decides where each one goes. Nothing is sent. That is the topic where the record
// failed, which must be that of its origin unless To names another. The partition there is the record's, because
// that is where its key was, whatever partitioner put it there. Only if the topic has no such partition, or with
// ByKey, or in another topic, it is the one of the key by Kafka's murmur2, and for a letter without a key the
// number of its partition modulo the number of partitions.
//
// A letter that cannot go where it belongs is set aside, and the others are planned.
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
	targets := targets{replay: r, client: cl, known: map[string]target{}}
	for _, row := range rows {
		p.Repeats += row.Repeats
		if row.Fault != "" {
			p.Unreadable = append(p.Unreadable, row)
			continue
		}
		to, err := targets.of(ctx, row)
		if err != nil {
			return nil, err
		}
		if to.refusal != nil {
			p.Refused = append(p.Refused, refusedRow(row, to.refusal))
			continue
		}
		p.Items = append(p.Items, Item{
			Letter: row.Place, Origin: *row.Origin, Attempt: max(row.Attempt, 1) + 1, Reason: row.Reason,
			To: Target{to.facts.Topic, r.partition(row, to.facts.Partitions)},
		})
	}
	return p, nil
}

func (r Replay) partition(row Row, partitions int32) int32 {
	origin := row.failed.Partition
	back := r.To == "" || r.To == row.failed.Topic
	if origin < partitions && (row.hash < 0 || back && !r.ByKey) {
		return origin
	}
	if row.hash < 0 {
		return origin % partitions
	}
	return int32(row.hash % int(partitions))
}

// hashOf is what Kafka's own partitioner makes of a key before it is divided by the partitions; -1 without a key.
// A row has this and not the key, which whoever wrote the letter has made as long as he likes.
func hashOf(key []byte) int {
	if key == nil {
		return -1
	}
	// It has 31 bits, so that the division leaves it as it is. For a record with a key this partitioner has no state.
	all := uint32(1) << 31
	return kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: key}, int(all))
}
