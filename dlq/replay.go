package dlq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/stream"
)

// Replay refuses letters with these, and with ErrNoFamily and ErrMalformed.
var (
	// ErrElsewhere: the record comes from another topic than the one it was read from when it failed, so
	// that nothing says which of the two it belongs to. ReplayTo takes the topic.
	ErrElsewhere = errors.New("the letter's origin is another topic than the one that its record failed in")
	// ErrReduced: the letter has not all of its record, which was too large for the dead-letter topic. The
	// record stands where it failed, as long as that topic keeps it.
	ErrReduced = errors.New("the letter does not have its whole record")
)

// Replay returns the message that brings a letter back to the topic that it failed in, with the key, value,
// timestamp and headers of its record. Of the headers that are Reserved it has the origin, in Connect's
// and HeaderTopicID, where New looks for it if the record fails again; HeaderAttempt, which is one more than
// the letter's, for the attempt that the replay asks for (a letter that does not tell counts as one);
// HeaderReplayed, which names the letter; and HeaderTimestamp, if the record's own time cannot be written.
// Which partition it goes to is the caller's choice; the record was in that of FailedAt.
//
// A letter without an origin is ErrNoFamily or ErrMalformed, one that has not its whole record is ErrReduced,
// and one of two topics ErrElsewhere. The bytes are shared with the letter.
func Replay(l Letter) (stream.Message, error) {
	if l.Fault == nil && l.Origin.Topic != l.FailedAt.Topic {
		return stream.Message{}, fmt.Errorf("replay: %w: %s, and it failed at %s", ErrElsewhere, l.Origin, l.FailedAt)
	}
	return ReplayTo(l, l.FailedAt.Topic)
}

// ReplayTo is Replay to a topic that the caller names, whatever the letter says.
func ReplayTo(l Letter, topic string) (stream.Message, error) {
	if l.Fault != nil {
		return stream.Message{}, l.Fault
	}
	if l.Family == Unknown || l.Origin.Topic == "" {
		return stream.Message{}, fmt.Errorf("replay: %w", ErrNoFamily)
	}
	if l.Reduced() {
		return stream.Message{}, fmt.Errorf("replay: %w (left out: %s): it stands at %s", ErrReduced, quote([]byte(l.Changed)), l.FailedAt)
	}
	r := l.Record
	m := stream.Message{Topic: topic, Key: r.Key, Value: r.Value, Timestamp: l.Timestamp}
	m.Headers = append(make([]stream.Header, 0, len(r.Headers)+7), Unreserved(r.Headers)...)
	add := func(key, value string) {
		m.Headers = append(m.Headers, stream.Header{Key: key, Value: []byte(value)})
	}
	add(connectTopic, l.Origin.Topic)
	add(connectPartition, strconv.Itoa(int(l.Origin.Partition)))
	add(connectOffset, strconv.FormatInt(l.Origin.Offset, 10))
	if l.Origin.TopicID != ([16]byte{}) {
		add(HeaderTopicID, formatID(l.Origin.TopicID))
	}
	add(HeaderAttempt, strconv.Itoa(min(max(l.Attempt, 1), MaxAttempt-1)+1))
	add(HeaderReplayed, Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}.String())
	if !stream.Carried(l.Timestamp) {
		m.Timestamp = r.Timestamp
		add(HeaderTimestamp, strconv.FormatInt(l.Timestamp.UnixMilli(), 10))
	}
	return m, nil
}

// Reduced reports whether the letter lacks the key, the value or the headers of its record.
func (l Letter) Reduced() bool {
	for word := range strings.SplitSeq(l.Changed, ",") {
		if word == changedKey || word == changedValue || word == changedHeaders {
			return true
		}
	}
	return false
}
