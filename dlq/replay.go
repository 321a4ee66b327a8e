package dlq

import (
	"fmt"
	"math"
	"strconv"

	"github.com/holdfast-go/holdfast/stream"
)

// Replay returns the message that brings a letter back: to the topic of its origin, with key, value,
// timestamp and headers unchanged, but for three things. An origin in another family's headers is
// repeated in Connect's, where New looks for it if the record fails again; HeaderAttempt is one more
// than the letter's, for the attempt that the replay asks for (a letter that does not tell counts as
// one); HeaderReplayed names the letter. Which partition it goes to is the caller's choice.
//
// A letter without an origin is ErrNoFamily or ErrMalformed. The bytes are shared with the letter.
func Replay(l Letter) (stream.Message, error) {
	if l.Fault != nil {
		return stream.Message{}, l.Fault
	}
	if l.Family == Unknown || l.Origin.Topic == "" {
		return stream.Message{}, fmt.Errorf("replay: %w", ErrNoFamily)
	}
	r := l.Record
	hs := make([]stream.Header, 0, len(r.Headers)+5)
	origin := l.Family == Holdfast || l.Family == Connect // it stands in Connect's headers already
	for _, h := range r.Headers {
		if h.Key != HeaderAttempt && h.Key != HeaderReplayed {
			hs = append(hs, h)
		}
	}
	add := func(key, value string) { hs = append(hs, stream.Header{Key: key, Value: []byte(value)}) }
	if !origin {
		add(connectTopic, l.Origin.Topic)
		add(connectPartition, strconv.Itoa(int(l.Origin.Partition)))
		add(connectOffset, strconv.FormatInt(l.Origin.Offset, 10))
	}
	add(HeaderAttempt, strconv.Itoa(min(max(l.Attempt, 1), math.MaxInt32-1)+1))
	add(HeaderReplayed, Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}.String())
	return stream.Message{Topic: l.Origin.Topic, Key: r.Key, Value: r.Value, Headers: hs, Timestamp: r.Timestamp}, nil
}
