package dlq

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// Parse and Letter.Fault say with these why a letter has no origin.
var (
	// ErrNoFamily: the record has no origin headers of a family that Parse knows. It was written to
	// the topic by something else.
	ErrNoFamily = errors.New("no dead-letter headers of a known family")
	// ErrMalformed: the record has origin headers that cannot be read. The message names the header.
	ErrMalformed = errors.New("dead-letter headers cannot be read")
)

// Family is a convention for the headers of dead letters.
type Family string

// The families.
const (
	Unknown  Family = ""
	Holdfast Family = "holdfast" // Connect's and Holdfast's own
	Connect  Family = "connect"
	Streams  Family = "streams"
	Spring   Family = "spring"
)

// Origin is where a record was read.
type Origin struct {
	Topic     string
	TopicID   [16]byte // zero: not known
	Partition int32
	Offset    int64
}

// String returns "topic/partition/offset".
func (o Origin) String() string {
	return o.Topic + "/" + strconv.Itoa(int(o.Partition)) + "/" + strconv.FormatInt(o.Offset, 10)
}

// same reports whether two origins are one place. An id that is not known fits any.
func (o Origin) same(p Origin) bool {
	if o.TopicID == ([16]byte{}) || p.TopicID == ([16]byte{}) {
		o.TopicID, p.TopicID = [16]byte{}, [16]byte{}
	}
	return o == p
}

// Letter is a dead letter. Fields that the family does not have are zero.
type Letter struct {
	Record stream.Record // as it stands in the dead-letter topic
	Family Family
	// Origin is where the record comes from. Holdfast keeps the first place over replays into its topic,
	// Connect over all failures. Kafka Streams and Spring append, and it is the last place.
	Origin Origin
	// FailedAt is where the record was read when it failed: the origin, unless the record was replayed.
	FailedAt   Origin
	Reason     string
	Class      string // type of the error
	Stage      string
	Attempt    int // how often the record failed; 0: not known
	Group      string
	AppVersion string
	Timestamp  time.Time // the record's own, which is the letter's unless HeaderTimestamp tells
	WrittenAt  time.Time // of the letter; zero: it does not tell
	Changed    string    // HeaderChanged; "": the letter has its record as it was
	// Fault is nil in what Parse returns without an error. All sets it to Parse's error: the letter has
	// no Origin then.
	Fault error
}

// Parse reads the headers of a dead letter. Where there are several families, Holdfast's and
// Connect's come before Kafka Streams' and these before Spring's. It is strict: an origin that is not
// complete and plain is ErrMalformed, and a record without one is ErrNoFamily. The letter that comes
// with an error has its Record and its Family.
func Parse(r stream.Record) (Letter, error) {
	l := Letter{Record: r, Timestamp: r.Timestamp}
	for _, f := range families {
		if !f.present(r.Headers) {
			continue
		}
		l.Family = f.family
		if err := f.read(&l, r.Headers); err != nil {
			return Letter{Record: r, Timestamp: r.Timestamp, Family: l.Family}, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return l, nil
	}
	return l, ErrNoFamily
}

var families = [...]struct {
	family  Family
	present func([]stream.Header) bool
	read    func(*Letter, []stream.Header) error
}{
	{Holdfast, anyOf(HeaderReason, HeaderAttempt, HeaderTopicID, HeaderFailedAt), readHoldfast},
	{Connect, anyOf(connectTopic, connectPartition, connectOffset), readConnect},
	{Streams, anyOf(streamsTopic, streamsPartition, streamsOffset), readStreams},
	{Spring, anyOf(springTopic, springPartition, springOffset), readSpring},
}

// anyOf returns a function that reports whether one of the headers is there.
func anyOf(keys ...string) func([]stream.Header) bool {
	return func(hs []stream.Header) bool {
		for _, k := range keys {
			if _, ok := first(hs, k); ok {
				return true
			}
		}
		return false
	}
}

// find picks one of several headers of the same name: first or last.
type find func([]stream.Header, string) ([]byte, bool)

func (f find) text(hs []stream.Header, key string) string {
	v, _ := f(hs, key)
	return string(v)
}

// textOrigin reads an origin whose three headers are text.
func (f find) textOrigin(hs []stream.Header, topic, partition, offset string) (Origin, error) {
	var o Origin
	name, err := f.topic(hs, topic)
	if err != nil {
		return o, err
	}
	p, err := f.number(hs, partition, 32)
	if err != nil {
		return o, err
	}
	at, err := f.number(hs, offset, 64)
	if err != nil {
		return o, err
	}
	return Origin{Topic: name, Partition: int32(p), Offset: at}, nil
}

func (f find) topic(hs []stream.Header, key string) (string, error) {
	v, ok := f(hs, key)
	if !ok {
		return "", fmt.Errorf("header %s is missing", key)
	}
	if !wire.TopicName(string(v)) {
		return "", fmt.Errorf("header %s: %s is no topic name", key, quote(v))
	}
	return string(v), nil
}

func (f find) number(hs []stream.Header, key string, bits int) (int64, error) {
	v, ok := f(hs, key)
	if !ok {
		return 0, fmt.Errorf("header %s is missing", key)
	}
	n, err := number(v, bits)
	if err != nil {
		return 0, fmt.Errorf("header %s: %w", key, err)
	}
	return n, nil
}

func readConnect(l *Letter, hs []stream.Header) (err error) {
	at := find(first) // Connect leaves a header alone that is there already
	l.Origin, err = at.textOrigin(hs, connectTopic, connectPartition, connectOffset)
	l.FailedAt = l.Origin
	l.Reason, l.Class, l.Stage = at.text(hs, connectMessage), at.text(hs, connectClass), at.text(hs, connectStage)
	return err
}

func readHoldfast(l *Letter, hs []stream.Header) error {
	if err := readConnect(l, hs); err != nil {
		return err
	}
	at := find(first)
	if v, ok := first(hs, HeaderTopicID); ok {
		id, err := parseID(v)
		if err != nil {
			return fmt.Errorf("header %s: %w", HeaderTopicID, err)
		}
		l.Origin.TopicID = id
	}
	attempt, err := at.number(hs, HeaderAttempt, 32)
	if err != nil {
		return err
	}
	l.FailedAt = l.Origin
	if v, ok := first(hs, HeaderFailedAt); ok {
		if l.FailedAt, err = parsePlace(v); err != nil {
			return fmt.Errorf("header %s: %w", HeaderFailedAt, err)
		}
	}
	l.Attempt = int(min(attempt, MaxAttempt))
	if v, ok := first(hs, HeaderTimestamp); ok {
		if l.Timestamp, err = millis(v); err != nil {
			return fmt.Errorf("header %s: %w", HeaderTimestamp, err)
		}
	}
	if v, ok := first(hs, HeaderWrittenAt); ok {
		if l.WrittenAt, err = millis(v); err != nil {
			return fmt.Errorf("header %s: %w", HeaderWrittenAt, err)
		}
	}
	l.Changed = at.text(hs, HeaderChanged)
	l.Reason, l.Stage = at.text(hs, HeaderReason), at.text(hs, HeaderStage)
	l.Group, l.AppVersion = at.text(hs, HeaderGroup), at.text(hs, HeaderAppVersion)
	return nil
}

func readStreams(l *Letter, hs []stream.Header) (err error) {
	at := find(last) // Kafka Streams appends at each failure
	l.Origin, err = at.textOrigin(hs, streamsTopic, streamsPartition, streamsOffset)
	l.FailedAt = l.Origin
	l.Reason, l.Class = at.text(hs, streamsMessage), at.text(hs, streamsClass)
	return err
}

func readSpring(l *Letter, hs []stream.Header) error {
	at := find(last) // Spring appends by default
	name, err := at.topic(hs, springTopic)
	if err != nil {
		return err
	}
	p, err := at.binary(hs, springPartition, 4)
	if err != nil {
		return err
	}
	offset, err := at.binary(hs, springOffset, 8)
	if err != nil {
		return err
	}
	l.Origin = Origin{Topic: name, Partition: int32(p), Offset: offset}
	l.FailedAt = l.Origin
	// What a listener throws is wrapped by Spring; the cause's class tells more.
	l.Class = at.text(hs, springCause)
	if l.Class == "" {
		l.Class = at.text(hs, springClass)
	}
	l.Reason, l.Group = at.text(hs, springMessage), at.text(hs, springGroup)
	// Older versions wrote one byte here; what is not four bytes is not an attempt and not a fault.
	if n, err := at.binary(hs, springAttempts, 4); err == nil {
		l.Attempt = int(min(n, MaxAttempt))
	}
	return nil
}

// binary reads a big-endian number from 0 on, of exactly size bytes.
func (f find) binary(hs []stream.Header, key string, size int) (int64, error) {
	v, ok := f(hs, key)
	if !ok {
		return 0, fmt.Errorf("header %s is missing", key)
	}
	if len(v) != size {
		return 0, fmt.Errorf("header %s has %d bytes, not %d", key, len(v), size)
	}
	var n int64
	if size == 4 {
		n = int64(int32(binary.BigEndian.Uint32(v)))
	} else {
		n = int64(binary.BigEndian.Uint64(v))
	}
	if n < 0 {
		return 0, fmt.Errorf("header %s is %d", key, n)
	}
	return n, nil
}

// parsePlace reads "topic/partition/offset". No topic's name has a slash.
func parsePlace(text []byte) (Origin, error) {
	parts := bytes.Split(text, []byte("/"))
	if len(parts) != 3 {
		return Origin{}, fmt.Errorf("%s is not topic/partition/offset", quote(text))
	}
	p, perr := number(parts[1], 32)
	o, oerr := number(parts[2], 64)
	if perr != nil || oerr != nil || !wire.TopicName(string(parts[0])) {
		return Origin{}, fmt.Errorf("%s is not topic/partition/offset", quote(text))
	}
	return Origin{Topic: string(parts[0]), Partition: int32(p), Offset: o}, nil
}
