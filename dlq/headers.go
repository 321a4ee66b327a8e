package dlq

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/visible"
	"github.com/holdfast-go/holdfast/stream"
)

// The headers of Kafka Connect's dead letters. Values are UTF-8 text, numbers in decimal.
const (
	connectTopic     = "__connect.errors.topic"
	connectPartition = "__connect.errors.partition"
	connectOffset    = "__connect.errors.offset"
	connectClass     = "__connect.errors.exception.class.name"
	connectMessage   = "__connect.errors.exception.message"
	connectStage     = "__connect.errors.stage"
)

// The headers that Holdfast adds to Connect's.
const (
	HeaderTopicID    = "dlq.topic.id"    // id of the origin topic, as Kafka prints it
	HeaderReason     = "dlq.reason"      // text of the error
	HeaderStage      = "dlq.stage"       // where it failed, as "fold"
	HeaderAttempt    = "dlq.attempt"     // how often the record has failed, over replays too
	HeaderGroup      = "dlq.group"       // consumer group of the component
	HeaderAppVersion = "dlq.app.version" // version of the application
	// HeaderFailedAt is where the record was read when it failed, as "topic/partition/offset". It is
	// there only if that is not the origin: the record was replayed, and has failed again.
	HeaderFailedAt = "dlq.failed.at"
	// HeaderReplayed marks a record that was replayed, with the letter's place as
	// "topic/partition/offset". A letter does not have it.
	HeaderReplayed = "dlq.replayed"
	// HeaderTimestamp is the record's own timestamp, in milliseconds since 1970. It is there only if the
	// letter has another one.
	HeaderTimestamp = "dlq.timestamp"
	// HeaderChanged names what of the record the letter has not as it was: words of "timestamp", "value",
	// "headers", "key" and "reserved headers", with commas between them. Only the timestamp and the
	// reserved headers, which are dropped, leave a letter that can be replayed.
	HeaderChanged = "dlq.changed"
	// HeaderWrittenAt is when the letter was written, by the component's clock, in milliseconds since 1970.
	HeaderWrittenAt = "dlq.written.at"
)

// The headers that are Holdfast's own begin with these, and are never taken over from a record that was
// read: whoever may write to an input would else write them.
const (
	ownPrefix     = "dlq."
	connectPrefix = "__connect.errors."
	snapshotState = stream.SnapshotHeader
)

// Reserved reports whether a header of that name is one of the dead letters' own (dlq.*,
// __connect.errors.*) or that of snapshots (holdfast). Such headers of an input say nothing that is
// believed, but of a replay where it comes from.
func Reserved(name string) bool {
	return strings.HasPrefix(name, ownPrefix) || strings.HasPrefix(name, connectPrefix) || name == snapshotState
}

// Unreserved returns the headers that are not Reserved, in their order: hs itself if it has no others.
func Unreserved(hs []stream.Header) []stream.Header {
	if !slices.ContainsFunc(hs, isReserved) {
		return hs
	}
	return slices.DeleteFunc(slices.Clone(hs), isReserved)
}

func isReserved(h stream.Header) bool { return Reserved(h.Key) }

// The headers of Kafka Streams' dead letters (KIP-1034): UTF-8 text, appended at each failure.
const (
	streamsTopic     = "__streams.errors.topic"
	streamsPartition = "__streams.errors.partition"
	streamsOffset    = "__streams.errors.offset"
	streamsClass     = "__streams.errors.exception"
	streamsMessage   = "__streams.errors.message"
)

// The headers of Spring for Kafka's dead letters: the partition is four bytes, the offset eight, both
// big-endian; the rest is UTF-8 text.
const (
	springTopic     = "kafka_dlt-original-topic"
	springPartition = "kafka_dlt-original-partition"
	springOffset    = "kafka_dlt-original-offset"
	springGroup     = "kafka_dlt-original-consumer-group"
	springClass     = "kafka_dlt-exception-fqcn"
	springCause     = "kafka_dlt-exception-cause-fqcn"
	springMessage   = "kafka_dlt-exception-message"
	springAttempts  = "retry_topic-attempts"
)

// first returns the value of the first header of that name.
func first(hs []stream.Header, key string) ([]byte, bool) {
	for _, h := range hs {
		if h.Key == key {
			return h.Value, true
		}
	}
	return nil, false
}

// last returns the value of the last header of that name.
func last(hs []stream.Header, key string) ([]byte, bool) {
	for i := len(hs) - 1; i >= 0; i-- {
		if hs[i].Key == key {
			return hs[i].Value, true
		}
	}
	return nil, false
}

// number reads a decimal number from 0 on, of at most bits bits, in its one spelling.
func number(text []byte, bits int) (int64, error) {
	n, err := strconv.ParseInt(string(text), 10, bits)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != string(text) {
		return 0, fmt.Errorf("%s is no number from 0 on", quote(text))
	}
	return n, nil
}

// millis reads a decimal number of milliseconds, in its one spelling.
func millis(text []byte) (time.Time, error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != string(text) {
		return time.Time{}, fmt.Errorf("%s is no number of milliseconds", quote(text))
	}
	return time.UnixMilli(n), nil
}

// quote makes bytes from a stranger fit for an error: printable and short.
func quote(b []byte) string { return visible.Quote(string(b), 60) }

// formatID returns a topic id in the spelling of Kafka's tools.
func formatID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func parseID(text []byte) (id [16]byte, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(text))
	if err != nil || len(b) != len(id) || formatID([16]byte(b)) != string(text) {
		return id, fmt.Errorf("%s is no topic id", quote(text))
	}
	return [16]byte(b), nil
}
