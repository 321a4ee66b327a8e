package preflight

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/snapshot"
)

// state is a snapshot record of a key.
func state(t *testing.T, topic string, partition int32, key string, kind snapshot.Kind, incarnation uint64) *kgo.Record {
	t.Helper()
	r := snapshot.Record{Key: []byte(key), Value: []byte("s"), Kind: kind}
	r.Applied, r.Incarnation = []int64{0}, incarnation
	if kind == snapshot.Deleted || kind == snapshot.Tombstone {
		r.Value = nil
	}
	m, err := snapshot.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	out := &kgo.Record{Topic: topic, Partition: partition, Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}

// A key that has a state in two partitions has moved, and check says so. One that was deleted in one of them, or is
// of an incarnation before, has one.
func TestKeysInTwoPartitions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		second []*kgo.Record // of partition 1, beside "a" and "b" in partition 0
		level  claim.Level
		says   string
	}{
		"none":                 {[]*kgo.Record{state(t, "", 1, "c", snapshot.State, 1)}, claim.LevelOK, "3 keys sampled (at the end of 2 partitions), 0 of them"},
		"one":                  {[]*kgo.Record{state(t, "", 1, "b", snapshot.State, 1)}, claim.LevelWarning, "1 of them have states in two partitions"},
		"one that was deleted": {[]*kgo.Record{state(t, "", 1, "b", snapshot.State, 1), state(t, "", 1, "b", snapshot.Deleted, 1)}, claim.LevelOK, "0 of them"},
		"one that is gone":     {[]*kgo.Record{state(t, "", 1, "b", snapshot.State, 1), state(t, "", 1, "b", snapshot.Tombstone, 1)}, claim.LevelOK, "0 of them"},
		"one before a rebuild": {[]*kgo.Record{state(t, "", 1, "b", snapshot.State, 1), state(t, "", 1, "c", snapshot.State, 2)}, claim.LevelOK, "0 of them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, job := embedded(t, nil)
			job.Component = claim.ComponentFlow
			job.Progress.Role, job.Progress.Topic = "snapshot", "states"
			if _, err := Inspect(t.Context(), job, Mode{Create: true}); err != nil {
				t.Fatal(err)
			}
			records := []*kgo.Record{state(t, "states", 0, "a", snapshot.State, 1), state(t, "states", 0, "b", snapshot.State, 1)}
			for _, r := range c.second {
				r.Topic = "states"
				records = append(records, r)
			}
			put(t, job, records...)
			found, err := Inspect(t.Context(), job, Mode{Deep: true})
			if err != nil {
				t.Fatal(err)
			}
			f := one(t, found, "keys")
			if f.Level() != c.level || !strings.Contains(f.Text(), c.says) || strings.Contains(f.Text(), "Rebuild") || (f.Level() != claim.LevelOK) != (len(f.Fix) > 0) {
				t.Errorf("finding %+v", f)
			}
		})
	}
}
