package dlq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// The limits of what New adds to a record, in bytes of UTF-8. Longer texts are cut and end in "…".
const (
	MaxReason = 1024
	// MaxOverhead is above the bytes that a letter has more than its record.
	MaxOverhead = 4096
	// MaxAttempt is the highest number of attempts that a letter tells.
	MaxAttempt = 1_000_000

	maxGroup   = 255
	maxVersion = 128
	maxStage   = 64
	maxClass   = 128
)

// Cause is why a record is dead-lettered, by whom, and what its topic takes.
type Cause struct {
	Topic      string   // the dead-letter topic
	TopicID    [16]byte // id of the record's topic; zero: not known
	Err        error    // its text is the reason; a stack in it is left out
	Panicked   bool     // Err is a panic, as stream.RecordError has it
	Stage      string   // what was being done, as "fold"
	Attempt    int      // how often the record failed here, from 1; as stream.RecordError has it
	Group      string
	AppVersion string    // may be empty
	Now        time.Time // when the letter is written; zero: it does not tell
	Takes      Takes     // the dead-letter topic
	// Without is what the topic has refused of this letter: it is left out.
	Without Refused
}

// Refused is what of a letter its topic has refused, the worst of it.
type Refused int

// From the least to the worst.
const (
	Nothing   Refused = iota
	Timestamp         // it has the time of writing for it
	Payload           // and neither key nor value nor the record's headers: it only says where the record stands
)

// New returns the letter for r. Key, value, timestamp and the record's own headers are r's, in their
// order: nil stays nil and empty stays empty. The bytes are shared with r and not copied.
//
// The origin is where r was read, whatever its headers say: an application that copies headers hands a
// letter's to other records, and whoever may write to an input can invent them. Only a record that
// Replay has brought back to the topic that it failed in, of the same name and id, keeps the first
// origin. Where it was read this time is in HeaderFailedAt then, and HeaderAttempt counts on. Whoever
// may write to that topic can forge such a record, but no more than one of that topic: the letter is
// replayed to where it was read, and is a repeat only of letters with the same content (see Identity).
// Headers of r that are Reserved are left out.
//
// A letter does not inherit what its topic would refuse (Cause.Takes, Cause.Without): a timestamp
// outside of its limits is replaced by the time of writing and kept in HeaderTimestamp; of a record
// that is too large the value is left out, then the headers, then the key, and the letter tells where
// the record stands. HeaderChanged says so.
//
// The reason may quote what the error quotes. Keep personal data out of errors, or out of the reach of
// whoever reads the dead-letter topic.
func New(r stream.Record, c Cause) stream.Message {
	b := newBuilder(r, c)
	if c.Without >= Payload {
		return b.letter(noValue|noHeaders|noKey, MaxReason)
	}
	m := b.letter(0, MaxReason)
	over := m.BatchBytes() - stream.MaxBatchBytes(c.Takes.Bytes)
	if c.Takes.Bytes <= 0 || over <= 0 {
		return m
	}
	// The reason stands in two headers. Half of what is over is to go from each, and something stays.
	const enough = 32
	if shorter := int64(len(clip(b.reason, MaxReason))) - (over+1)/2; shorter >= enough {
		return b.letter(0, int(shorter))
	}
	for _, out := range [...]parts{noValue, noValue | noHeaders} {
		if m := b.letter(out, MaxReason); m.BatchBytes() <= stream.MaxBatchBytes(c.Takes.Bytes) {
			return m
		}
	}
	return b.letter(noValue|noHeaders|noKey, MaxReason)
}

// parts of a record that a letter leaves out.
type parts int

const (
	noValue parts = 1 << iota
	noHeaders
	noKey
)

// builder makes the letters of one record, until one fits.
type builder struct {
	r            stream.Record
	c            Cause
	here, origin Origin
	attempt      int
	own          []stream.Header // of the record, without those that are reserved
	reason       string
	stamp        time.Time
	told         string // the record's own timestamp, if stamp is another one
}

func newBuilder(r stream.Record, c Cause) *builder {
	b := &builder{r: r, c: c, own: Unreserved(r.Headers), reason: reasonOf(c.Err),
		here: Origin{Topic: r.Topic, TopicID: c.TopicID, Partition: r.Partition, Offset: r.Offset}}
	b.origin, b.attempt = b.here, attempts(0, c.Attempt)
	b.stamp, b.told = c.stamp(r.Timestamp)
	if l, ok := replay(r, b.here); ok {
		b.origin, b.attempt = l.Origin, attempts(l.Attempt-1, c.Attempt) // the replay has counted the attempt that it asks for
		if !l.Timestamp.Equal(r.Timestamp) {
			b.told = strconv.FormatInt(l.Timestamp.UnixMilli(), 10)
		}
	}
	return b
}

// replay returns what a record says that Replay has brought back to the topic it failed in; ok is false for any other.
func replay(r stream.Record, here Origin) (l Letter, ok bool) {
	from, ok := first(r.Headers, HeaderReplayed)
	if !ok {
		return l, false
	}
	if _, err := parsePlace(from); err != nil {
		return l, false
	}
	l, err := Parse(r)
	return l, err == nil && l.Family == Holdfast && l.Attempt > 0 && sameTopic(l.Origin, here)
}

// sameTopic reports whether two places are in one topic. An id that is not known fits any.
func sameTopic(a, b Origin) bool {
	known := a.TopicID != ([16]byte{}) && b.TopicID != ([16]byte{})
	return a.Topic == b.Topic && (!known || a.TopicID == b.TopicID)
}

func (b *builder) letter(out parts, reasonLimit int) stream.Message {
	m := stream.Message{Topic: b.c.Topic, Timestamp: b.stamp}
	if out&noValue == 0 {
		m.Value = b.r.Value
	}
	if out&noKey == 0 {
		m.Key = b.r.Key
	}
	if out&noHeaders == 0 {
		m.Headers = append(make([]stream.Header, 0, len(b.own)+16), b.own...)
	}
	add := func(key, value string, limit int) {
		if value != "" {
			m.Headers = append(m.Headers, stream.Header{Key: key, Value: []byte(clip(value, limit))})
		}
	}
	add(connectTopic, b.origin.Topic, wire.MaxTopicName)
	add(connectPartition, strconv.Itoa(int(b.origin.Partition)), wire.MaxTopicName)
	add(connectOffset, strconv.FormatInt(b.origin.Offset, 10), wire.MaxTopicName)
	add(connectClass, className(b.c), maxClass)
	add(connectMessage, b.reason, reasonLimit)
	if b.origin.TopicID != ([16]byte{}) {
		add(HeaderTopicID, formatID(b.origin.TopicID), wire.MaxTopicName)
	}
	if !b.origin.same(b.here) {
		add(HeaderFailedAt, b.here.String(), 2*wire.MaxTopicName)
	}
	add(HeaderReason, b.reason, reasonLimit)
	add(HeaderStage, b.c.Stage, maxStage)
	add(HeaderAttempt, strconv.Itoa(b.attempt), wire.MaxTopicName)
	add(HeaderGroup, b.c.Group, maxGroup)
	add(HeaderAppVersion, b.c.AppVersion, maxVersion)
	add(HeaderTimestamp, b.told, wire.MaxTopicName)
	add(HeaderChanged, b.changed(out), wire.MaxTopicName)
	if !b.c.Now.IsZero() {
		add(HeaderWrittenAt, strconv.FormatInt(b.c.Now.UnixMilli(), 10), wire.MaxTopicName)
	}
	return m
}

// The words of HeaderChanged.
const (
	changedTimestamp = "timestamp"
	changedValue     = "value"
	changedHeaders   = "headers"
	changedKey       = "key"
	changedReserved  = "reserved headers"
)

func (b *builder) changed(out parts) string {
	var words []string
	for _, w := range []struct {
		is   bool
		word string
	}{
		{b.told != "", changedTimestamp}, {out&noValue != 0, changedValue}, {out&noHeaders != 0, changedHeaders},
		{out&noKey != 0, changedKey}, {hasSnapshotState(b.r.Headers), changedReserved},
	} {
		if w.is {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ",")
}

func hasSnapshotState(hs []stream.Header) bool {
	_, ok := first(hs, snapshotState)
	return ok
}

// attempts adds failures, up to MaxAttempt.
func attempts(before, here int) int {
	return min(max(before, 0)+min(max(here, 1), MaxAttempt), MaxAttempt)
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
