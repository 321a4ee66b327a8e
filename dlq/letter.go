package dlq

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/stream"
)

// The limits of what New adds to a record, in bytes of UTF-8. Longer texts are cut and end in "…".
const (
	MaxReason = 1024
	// MaxOverhead is above the bytes that a letter has more than its record.
	MaxOverhead = 4096

	maxGroup   = 255
	maxVersion = 128
	maxStage   = 64
	maxClass   = 128
)

// Cause is why a record is dead-lettered, and by whom.
type Cause struct {
	Topic      string   // the dead-letter topic
	TopicID    [16]byte // id of the record's topic; zero: not known
	Err        error    // its text is the reason; a stack in it is left out
	Panicked   bool     // Err is a panic, as stream.RecordError has it
	Stage      string   // what was being done, as "fold"
	Attempt    int      // how often the record failed here, from 1; as stream.RecordError has it
	Group      string
	AppVersion string // may be empty
}

// New returns the letter for r. Key, value, timestamp and the record's own headers are r's, in their
// order: nil stays nil and empty stays empty. The bytes are shared with r and not copied.
//
// The origin is the first one. A record that carries an origin already, of any family that Parse
// knows, keeps it: it was dead-lettered before, and read from the dead-letter topic or replayed. Where
// it was read this time is in HeaderFailedAt then, and HeaderAttempt counts on. Reason, stage, group,
// version and exception are this failure's; those of an earlier one are replaced. Connect's and
// Holdfast's origin headers that cannot be read are replaced too: the record's place is its origin then.
//
// The reason may quote what the error quotes. Keep personal data out of errors, or out of the reach of
// whoever reads the dead-letter topic.
func New(r stream.Record, c Cause) stream.Message {
	here := Origin{Topic: r.Topic, TopicID: c.TopicID, Partition: r.Partition, Offset: r.Offset}
	origin, before := here, 0
	earlier, err := Parse(r)
	carried := err == nil
	if carried {
		origin, before = earlier.Origin, earlier.Attempt
	}
	if _, ok := first(r.Headers, HeaderReplayed); ok && before > 0 {
		before-- // the replay has counted the attempt that it asks for
	}
	hs := make([]stream.Header, 0, len(r.Headers)+len(ours))
	for _, h := range r.Headers {
		if !ours[h.Key] {
			hs = append(hs, h)
		}
	}
	add := func(key, value string, limit int) {
		if value != "" {
			hs = append(hs, stream.Header{Key: key, Value: []byte(clip(value, limit))})
		}
	}
	add(connectTopic, origin.Topic, maxTopicName)
	add(connectPartition, strconv.Itoa(int(origin.Partition)), maxTopicName)
	add(connectOffset, strconv.FormatInt(origin.Offset, 10), maxTopicName)
	reason := reasonOf(c.Err)
	add(connectClass, className(c), maxClass)
	add(connectMessage, reason, MaxReason)
	if origin.TopicID != ([16]byte{}) {
		add(HeaderTopicID, formatID(origin.TopicID), maxTopicName)
	}
	if carried && !origin.same(here) {
		add(HeaderFailedAt, here.String(), 2*maxTopicName)
	}
	add(HeaderReason, reason, MaxReason)
	add(HeaderStage, c.Stage, maxStage)
	add(HeaderAttempt, strconv.Itoa(attempts(before, c.Attempt)), maxTopicName)
	add(HeaderGroup, c.Group, maxGroup)
	add(HeaderAppVersion, c.AppVersion, maxVersion)
	return stream.Message{Topic: c.Topic, Key: r.Key, Value: r.Value, Headers: hs, Timestamp: r.Timestamp}
}

// attempts adds failures without leaving the numbers that Parse takes, whatever a record came with.
func attempts(before, here int) int {
	return min(before, math.MaxInt32-1) + min(max(here, 1), math.MaxInt32-min(before, math.MaxInt32-1))
}

// ours are the headers that a letter has once, whatever the record came with.
var ours = map[string]bool{
	connectTopic: true, connectPartition: true, connectOffset: true, connectClass: true, connectMessage: true,
	HeaderTopicID: true, HeaderReason: true, HeaderStage: true, HeaderAttempt: true, HeaderGroup: true,
	HeaderAppVersion: true, HeaderFailedAt: true, HeaderReplayed: true,
}

// PartitionFor returns the partition of the dead-letter topic, which has partitions of them, for a
// record of that origin partition: letters of one origin partition stay in their order, and the repeats
// of one record are close together. A topic of no partitions answers 0.
func PartitionFor(origin, partitions int32) int32 {
	if partitions <= 0 || origin < 0 {
		return 0
	}
	return origin % partitions
}

// reasonOf is the text of err without a stack, which is long and names the same lines each time.
func reasonOf(err error) string {
	if err == nil {
		return "no reason was given"
	}
	text, _, _ := strings.Cut(err.Error(), stream.StackMark)
	return text
}

// className is what Connect calls the exception's class: the type of the innermost error, which is
// the one that says most; the outer ones are wrappers of the library and of fmt.
func className(c Cause) string {
	if c.Panicked {
		return "panic"
	}
	err := c.Err
	for err != nil {
		inner := errors.Unwrap(err)
		if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) > 0 {
			list := many.Unwrap()
			inner = list[len(list)-1]
		}
		if inner == nil {
			return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
		}
		err = inner
	}
	return ""
}

// clip makes text valid UTF-8 of at most limit bytes.
func clip(text string, limit int) string {
	const mark = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
