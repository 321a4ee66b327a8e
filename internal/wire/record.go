package wire

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

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
		Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Headers: headers,
	}
}
