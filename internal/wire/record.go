package wire

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// Time returns the timestamp that a record has in Kafka, where it is any number of milliseconds, from what the client
// has made of it. The client multiplies by a million in 64 bits and drops what is above: a number that is too large
// comes out as a time of another year. That shows in most of them, since the rest is no whole millisecond. The lowest
// 58 bits of the number can be computed back, and the time is the one of these that is next to 1970: it is right up to
// 4.5 million years from there, and a time that the client cannot carry in any case.
func Time(t time.Time) time.Time {
	const perMilli, odd, bits = 1_000_000, 15_625, 58 // a million is 64 × 15,625, so that 64 - 6 bits are left
	ns := t.UnixNano()
	if ns%perMilli == 0 {
		return t
	}
	inverse := uint64(1)
	for range 6 { // Newton: the right bits double each time, from the first one on
		inverse *= 2 - odd*inverse
	}
	ms := int64(uint64(ns)>>6*inverse<<(64-bits)) >> (64 - bits)
	at := time.UnixMilli(ms)
	if at.IsZero() { // the zero time of Go means that there is none
		at = at.Add(1)
	}
	return at
}

// Record returns a client's record as the rest of Holdfast knows it. The bytes are shared.
func Record(r *kgo.Record) stream.Record {
	var headers []stream.Header
	if len(r.Headers) > 0 {
		headers = make([]stream.Header, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = stream.Header(h)
		}
	}
	return stream.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
		Timestamp: Time(r.Timestamp), Key: r.Key, Value: r.Value, Headers: headers,
	}
}
