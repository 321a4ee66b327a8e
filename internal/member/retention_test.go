package member

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

func partition(n int32) stream.Partition { return stream.Partition{Topic: "in", Partition: n} }

// What is kept longest goes first, as far as the bound asks for it, and what is larger than the bound is
// not kept at all.
func TestRetentionIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := newRetention(100, time.Hour)
	put := func(n int32, bytes int64) (bool, []stream.Partition) {
		return r.put(partition(n), &retained{bytes: bytes, since: began.Add(time.Duration(n) * time.Millisecond)})
	}
	for _, c := range []struct {
		n       int32
		bytes   int64
		ok      bool
		dropped []stream.Partition
	}{
		{1, 40, true, nil},
		{2, 40, true, nil},
		{3, 101, false, nil},
		{4, 20, true, nil},
		{5, 60, true, []stream.Partition{partition(1), partition(2)}},
		{5, 80, true, nil}, // in the place of the one before
		{6, 100, true, []stream.Partition{partition(4), partition(5)}},
	} {
		if ok, dropped := put(c.n, c.bytes); ok != c.ok || !slices.Equal(dropped, c.dropped) {
			t.Errorf("partition %d of %d bytes: %v, dropped %v", c.n, c.bytes, ok, dropped)
		}
	}
	for n, want := range map[int32]bool{1: false, 2: false, 3: false, 4: false, 5: false, 6: true} {
		if got := r.take(partition(n)) != nil; got != want {
			t.Errorf("partition %d is kept: %v, want %v", n, got, want)
		}
	}
	if r.take(partition(6)) != nil || r.bytes != 0 {
		t.Errorf("what was taken is kept, or counted: %d bytes", r.bytes)
	}
}

// What is kept for too long is dropped though nobody asks for it.
func TestRetentionIsBoundedInAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &Member{retention: newRetention(100, time.Minute), log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		go m.expireRetained(ctx)
		start := time.Now()
		kept := func(want ...int32) {
			t.Helper()
			synctest.Wait()
			m.retention.mu.Lock()
			defer m.retention.mu.Unlock()
			for n := range int32(4) {
				if _, ok := m.retention.kept[partition(n)]; ok != slices.Contains(want, n) {
					t.Errorf("after %v partition %d is kept: %v", time.Since(start), n, ok)
				}
			}
		}
		m.retention.put(partition(1), &retained{bytes: 1, since: time.Now()})
		time.Sleep(20 * time.Second)
		m.retention.put(partition(2), &retained{bytes: 1, since: time.Now()})
		time.Sleep(40*time.Second - time.Nanosecond)
		kept(1, 2)
		time.Sleep(time.Nanosecond)
		kept(2)
		if ok, _ := m.retention.put(partition(3), &retained{bytes: 1, since: time.Now().Add(-time.Minute)}); ok {
			t.Error("what was too old already is kept")
		}
		time.Sleep(20 * time.Second)
		kept()
		m.retention.put(partition(1), &retained{bytes: 1, since: time.Now()})
		cancel()
		kept()
		if ok, _ := m.retention.put(partition(1), &retained{bytes: 1, since: time.Now()}); ok {
			t.Error("something is kept after the end")
		}
	})
}

// The end of the log has to be our progress record and our marker, and nothing else.
func TestTailDiffers(t *testing.T) {
	t.Parallel()
	key, _, err := fence.Progress{}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const at = 50
	progress := func(offset, producer int64) *kgo.Record {
		return &kgo.Record{Offset: offset, ProducerID: producer, Key: key, Value: []byte("p")}
	}
	control := func(offset, producer int64, kind kmsg.ControlRecordKeyType) *kgo.Record {
		key, value := kmsg.ControlRecordKey{Type: kind}, kmsg.EndTxnMarker{}
		return &kgo.Record{Offset: offset, ProducerID: producer, Key: key.AppendTo(nil), Value: value.AppendTo(nil),
			Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Control: true})}
	}
	marker := func(offset, producer int64) *kgo.Record {
		return control(offset, producer, kmsg.ControlRecordKeyTypeCommit)
	}
	abort := func(offset, producer int64) *kgo.Record {
		return control(offset, producer, kmsg.ControlRecordKeyTypeAbort)
	}
	state := func(offset, producer int64) *kgo.Record {
		return &kgo.Record{Offset: offset, ProducerID: producer, Key: []byte("k"), Value: []byte("v")}
	}
	tail := func(end int64, rs ...*kgo.Record) wire.Tail { return wire.Tail{Records: rs, HighWatermark: end} }
	for _, c := range []struct {
		name string
		tail wire.Tail
		want string // in what it says
	}{
		{"ours", tail(52, progress(50, 7), marker(51, 7)), ""},
		{"the log is shorter", wire.Tail{Outside: true}, "no offset 50"},
		{"the log ends at our record's place", tail(50), "ends at 50"},
		{"our marker is gone", tail(51, progress(50, 7)), "ends at 51"},
		{"a record came behind", tail(53, progress(50, 7), marker(51, 7), state(52, 8)), "ends at 53"},
		{"the log fell back and grew to the same end", tail(52, state(50, 8), marker(51, 8)), "is not a progress record"},
		{"it grew with two records", tail(52, state(50, 8), state(51, 8)), "is not a progress record"},
		{"another's record behind ours, in a log that fell back", tail(52, progress(50, 7), state(51, 8)), "is not a progress record"},
		{"another's marker behind ours, in a log that fell back", tail(52, progress(50, 7), marker(51, 8)), "another's"},
		{"another's abort, in a log that fell back", tail(52, progress(50, 7), abort(51, 7)), "with the commit of"},
		{"our record was compacted away", tail(52, marker(51, 7)), "not both"},
		{"both are gone", tail(52), "not both"},
		{"a marker in its place", tail(52, marker(50, 7), marker(51, 7)), "is not a progress record"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := tailDiffers(c.tail, at)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The committed offset has to be of the very commit that made the memory: the same number may be
// somebody else's.
func TestOffsetDiffers(t *testing.T) {
	t.Parallel()
	last := fence.LastCommit{Next: 100, Nonce: 7, Sequence: 3, At: 50}
	for _, c := range []struct {
		name string
		c    fence.Committed
		want bool
	}{
		{"ours", fence.Committed{Next: 100, Nonce: 7, Sequence: 3}, false},
		{"further", fence.Committed{Next: 101, Nonce: 7, Sequence: 3}, true},
		{"another's", fence.Committed{Next: 100, Nonce: 8, Sequence: 3}, true},
		{"another one of ours", fence.Committed{Next: 100, Nonce: 7, Sequence: 4}, true},
		{"set by a person", fence.Committed{Next: 100}, true},
		{"none", fence.Committed{Next: -1}, true},
	} {
		if got := offsetDiffers(c.c, last); (got != "") != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
