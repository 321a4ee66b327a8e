package letters

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// maxTargets is how many topics a replay looks at: their names are in headers, which anybody may have written.
const maxTargets = 1000

// target is a topic that letters go to, or why they do not.
type target struct {
	facts   wire.Facts
	refusal error
}

// targets are the topics of a plan, each asked for once.
type targets struct {
	replay Replay
	client *kgo.Client
	known  map[string]target
}

// of returns where a letter goes. An error ends the plan; what is about this letter alone is the target's refusal.
func (t targets) of(ctx context.Context, row Row) (target, error) {
	topic := t.replay.To
	switch {
	case !row.whole:
		return target{refusal: stream.NewError("replay", fmt.Errorf("letter %s: %w (left out: %s)", row.Place, dlq.ErrReduced, row.Changed)).
			At(stream.Partition{Topic: row.failed.Topic, Partition: row.failed.Partition}, row.failed.Offset).
			Hinted("take the record from there, as long as the topic keeps it")}, nil
	case topic == "" && row.origin.Topic != row.failed.Topic:
		return target{refusal: stream.NewError("replay", fmt.Errorf("letter %s: %w: %s, and it failed at %s", row.Place, dlq.ErrElsewhere, row.origin, row.failed)).
			Hinted("name the topic that it belongs to by --to")}, nil
	case topic == "":
		topic = row.failed.Topic
	}
	to, ok := t.known[topic]
	if !ok && len(t.known) >= maxTargets {
		return to, stream.NewError("replay", fmt.Errorf("%w: the letters come from more than %d topics", stream.ErrConfig, maxTargets)).
			Hinted("replay those of one topic at a time: --origin-topic")
	}
	if !ok {
		var err error
		to.facts, err = t.ask(ctx, topic)
		switch {
		case err != nil && (t.replay.To != "" || !errors.Is(err, stream.ErrTopic)):
			return to, err
		case err != nil:
			to.refusal = err
		}
		t.known[topic] = to
	}
	if to.refusal == nil {
		to.refusal = t.sameTopic(row, to.facts)
	}
	return to, nil
}

// ask looks at a topic, and refuses one that no letter may go to.
func (t targets) ask(ctx context.Context, topic string) (wire.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, t.replay.Patience)
	defer cancel()
	f, err := wire.TopicShape(ctx, t.client, topic)
	if err != nil {
		return f, kafka.Explain(err)
	}
	unusable := func(what string) *stream.Error {
		return stream.NewError("replay", fmt.Errorf("%w: %s", stream.ErrTopic, what)).At(stream.Partition{Topic: topic, Partition: -1}, -1)
	}
	switch {
	case topic == t.replay.Topic:
		return f, unusable("letters of this topic come from it").
			Hinted("name another topic by --to, or leave them out by --origin-topic")
	case !f.Exists:
		return f, unusable("it does not exist").
			Hinted("name another topic by --to, leave its letters out by --origin-topic, or create it")
	case f.Internal || strings.HasPrefix(topic, "__"):
		return f, unusable("it is one of the brokers' own").Hinted("name another topic by --to")
	}
	full, err := wire.TopicFacts(ctx, t.client, topic)
	if err == nil && !strings.Contains(full.CleanupPolicy, "compact") {
		return f, nil // no component keeps its states in such a topic
	}
	whose, err := t.states(ctx, f)
	switch {
	case errors.Is(err, stream.ErrNotAuthorized):
		return f, unusable("it is compacted, and may not be read: a snapshot topic cannot be told from an input").
			Hinted("allow Read on it: %s", wire.GrantTopic(t.client, topic, "Read"))
	case err != nil:
		return f, kafka.Explain(err)
	case whose != "":
		return f, unusable("it is a snapshot or progress topic (" + whose + "), which only its component may write to").
			Hinted("name another topic by --to")
	}
	return f, nil
}

// looked is how many offsets at the end of a partition are looked at for a component's own records. Each of its commits
// ends with one, and a marker.
const looked = 16

// errFound ends a look.
var errFound = errors.New("found")

// states says which record of a topic is one of a component's states or its progress; "": there is none at the ends of
// its partitions.
func (t targets) states(ctx context.Context, f wire.Facts) (whose string, err error) {
	for p := range f.Partitions {
		l := wire.Log{Client: t.client, Topic: f.Topic, Partition: p}
		start, end, _, err := l.Ends(ctx)
		if err != nil {
			return "", err
		}
		_, err = l.Read(ctx, wire.ReadOptions{From: max(start, end-looked), To: end}, func(r *kgo.Record) error {
			for _, h := range r.Headers {
				if h.Key == stream.SnapshotHeader {
					whose = fmt.Sprintf("partition %d has a snapshot at offset %d", p, r.Offset)
					return errFound
				}
			}
			if fence.IsProgressKey(r.Key) {
				whose = fmt.Sprintf("partition %d has a progress record at offset %d", p, r.Offset)
				return errFound
			}
			return nil
		})
		if errors.Is(err, errFound) || err != nil {
			return whose, ignoring(err, errFound)
		}
	}
	return "", nil
}

func ignoring(err, known error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}

// sameTopic refuses to send a letter to a topic that only has the name of the one it came from, unless
// that topic was named by the caller.
func (t targets) sameTopic(row Row, f wire.Facts) error {
	id := row.origin.TopicID
	if t.replay.To != "" || id == ([16]byte{}) || f.ID == ([16]byte{}) || id == f.ID {
		return nil
	}
	return stream.NewError("replay", fmt.Errorf("%w: it was created again after the record of letter %s was read",
		stream.ErrTopic, row.Place)).At(stream.Partition{Topic: f.Topic, Partition: -1}, -1).
		Hinted("if the letters belong into the topic of today: --origin-topic %[1]s --to %[1]s", f.Topic)
}
