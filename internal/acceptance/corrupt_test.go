package acceptance

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// A record of the snapshot topic that cannot be decoded fails the restore with the place of the
// record. It is never taken for an absent key: the fold would begin that key anew.
func TestKafkaCorruptSnapshotFailsTheRestore(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(r *kgo.Record) // r is a good snapshot of a key
	}{
		{"foreign record", func(r *kgo.Record) { r.Headers = nil }},
		{"undecodable state", func(r *kgo.Record) { r.Value = []byte(`{"N":`) }},
		{"truncated header", func(r *kgo.Record) { r.Headers[0].Value = r.Headers[0].Value[:3] }},
		{"unknown version", func(r *kgo.Record) {
			r.Headers[0].Value = bytes.Clone(r.Headers[0].Value)
			r.Headers[0].Value[0] = 99
		}},
		{"undecodable progress", func(r *kgo.Record) { *r = kgo.Record{Key: []byte("\x00progress"), Value: []byte{1, 2}} }},
		{"unknown reserved key", func(r *kgo.Record) { r.Key = []byte("\x00other") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := kafkatest.Start(t)
			input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
			group, pr := input+"-flow", producer(t, k)
			snapshots := stream.Partition{Topic: group + "-snapshots"}
			send(t, pr, input, "k", "1", "2")
			before := start(t, t.Context(), "before", config(k.Addrs, group, input))
			before.committedTo(0, 2)
			if err := before.stop(); err != nil {
				t.Fatal(err)
			}
			var bad *kgo.Record
			for _, r := range readAll(t, k, snapshots.Topic, kgo.ReadCommitted()) {
				if !snapshot.Reserved(r.Key) {
					bad = &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers}
				}
			}
			c.spoil(bad)
			bad.Topic = snapshots.Topic
			if err := pr.ProduceSync(t.Context(), bad).FirstErr(); err != nil {
				t.Fatal(err)
			}
			send(t, pr, input, "k", "3")
			err := start(t, t.Context(), "restoring", config(k.Addrs, group, input)).failure()
			named(t, err, holdfast.ErrCorruptSnapshot)
			located(t, err, snapshots, bad.Offset, string(bad.Key))
			if got := committed(t, k, group, input)[0]; got != 2 {
				t.Errorf("committed %d, want 2: nothing may be folded on a state that was not restored", got)
			}
		})
	}
}
