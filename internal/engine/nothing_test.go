package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

// nothing is an engine whose states are bytes, which may be none; key is what its route says, where it has one.
func nothing(t *testing.T, change func(*Config[[]byte])) *Engine[[]byte] {
	t.Helper()
	cfg := Config[[]byte]{
		Settings: Settings{Partition: stream.Partition{Topic: "in"}, Outputs: map[string]int{"out": 0}},
		Fold: func(_ context.Context, c *Call[[]byte], r stream.Record) error {
			if string(r.Value) == "delete" {
				c.Delete()
				return nil
			}
			c.Set(r.Value)
			c.Emit(stream.Message{Topic: "out", Key: c.Bytes(), Value: r.Value})
			return nil
		},
		Encode: func(dst, s []byte) ([]byte, error) { return append(dst, s...), nil },
		Decode: func(src []byte) ([]byte, error) { return append([]byte{}, src...), nil },
	}
	if change != nil {
		change(&cfg)
	}
	e := New(cfg)
	e.Start(epoch0, 0, 0, nil)
	return e
}

// I2: nil is no key, and an empty key is one: of each the record and the route, and what comes to the fold, to
// the batch and back from a restore.
func TestEmptyKeyIsAKey(t *testing.T) {
	t.Parallel()
	type route = func(stream.Record) ([]byte, bool)
	to := func(key []byte, ok bool) route { return func(stream.Record) ([]byte, bool) { return key, ok } }
	for _, c := range []struct {
		name  string
		key   []byte
		route route
		want  Outcome
	}{
		{"the record's is nil", nil, nil, Failed},
		{"the record's is empty", []byte{}, nil, Folded},
		{"the route's is nil", []byte("k"), to(nil, true), Failed},
		{"the route's is empty", []byte("k"), to([]byte{}, true), Folded},
		{"the route filters with nil", []byte("k"), to(nil, false), Filtered},
		{"the route filters with an empty one", []byte("k"), to([]byte{}, false), Filtered},
		{"the route makes an empty one of none", nil, to([]byte{}, true), Folded},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := nothing(t, func(cfg *Config[[]byte]) { cfg.Route = c.route })
			r := e.Step(t.Context(), epoch0, stream.Record{Topic: "in", Key: c.key, Value: []byte("v")})
			if r.Outcome != c.want || c.want == Failed && !errors.Is(r.Failure, stream.ErrNoKey) {
				t.Fatalf("I2: the record is %v (%v), want %v", r.Outcome, r.Failure, c.want)
			}
			if c.want != Folded {
				return
			}
			if r.Outputs[0].Key == nil {
				t.Error("I2: the fold was given nil for the empty key")
			}
			b, err := e.Close(epoch0, true)
			if err != nil || len(b.Writes) != 1 || b.Writes[0].Key == nil || len(b.Writes[0].Key) != 0 {
				t.Fatalf("I2: the batch is %+v (%v), want one write with an empty key that is not nil", b, err)
			}
			e.Committed(epoch0, b)
			if v, ok := e.Get([]byte{}); !ok || string(v.State) != "v" || !v.Clean() {
				t.Errorf("I2: the state of the empty key is %+v, %t", v, ok)
			}
		})
	}
}

// I2: a state that is encoded to nothing is a state, and only a deletion ends in a tombstone: nil is kept for it.
func TestStateOfNothingIsNoTombstone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values []string
		encode func(dst, s []byte) ([]byte, error)
		whole  bool
		want   func(Write) bool
	}{
		"empty":                 {[]string{""}, nil, false, func(w Write) bool { return !w.Tombstone && !w.NoState && w.Value != nil && len(w.Value) == 0 }},
		"encoded as nil":        {[]string{"v"}, func(_, _ []byte) ([]byte, error) { return nil, nil }, false, func(w Write) bool { return !w.Tombstone && w.Value != nil }},
		"deleted":               {[]string{"", "delete"}, nil, false, func(w Write) bool { return w.Deleted && w.Value != nil }},
		"deleted, whole batch":  {[]string{"", "delete"}, nil, true, func(w Write) bool { return w.Tombstone && w.Value == nil }},
		"set again to nothing":  {[]string{"v", ""}, nil, true, func(w Write) bool { return !w.Tombstone && w.Value != nil && len(w.Value) == 0 }},
		"nothing after a grave": {[]string{"v", "delete", ""}, nil, true, func(w Write) bool { return !w.Tombstone && w.Value != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := nothing(t, func(cfg *Config[[]byte]) {
				cfg.Whole = c.whole
				if c.encode != nil {
					cfg.Encode = c.encode
				}
			})
			for i, v := range c.values {
				if r := e.Step(t.Context(), epoch0, stream.Record{Topic: "in", Offset: int64(i), Key: []byte{}, Value: []byte(v)}); r.Outcome != Folded {
					t.Fatalf("step %d: %v", i, r.Failure)
				}
			}
			b, err := e.Close(epoch0, true)
			if err != nil || len(b.Writes) != 1 || !c.want(b.Writes[0]) {
				t.Fatalf("I2: the batch is %+v (%v)", b, err)
			}
		})
	}
}

// I2: a restore tells an empty state from a deletion, a key without a state and a tombstone, of the empty key too.
func TestRestoredEmptyKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last    Snapshot
		known   bool
		has     bool
		deleted bool
	}{
		"a state of nothing": {Snapshot{Key: []byte{}, Value: []byte{}, Applied: 3}, true, true, false},
		"deleted":            {Snapshot{Key: []byte{}, Value: []byte{}, Applied: 3, Deleted: true}, true, false, true},
		"without a state":    {Snapshot{Key: []byte{}, Value: []byte{}, Applied: 3, NoState: true}, true, false, false},
		"gone":               {Snapshot{Key: []byte{}, Tombstone: true}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(nothing(t, nil).cfg)
			for _, s := range []Snapshot{{Key: []byte{}, Value: []byte("old"), Applied: 1}, c.last} {
				if err := e.Load(s); err != nil {
					t.Fatal(err)
				}
			}
			e.Start(epoch0, 4, 4, nil)
			v, ok := e.Get([]byte{})
			if ok != c.known || v.Has != c.has || v.Deleted != c.deleted || c.has && v.State == nil {
				t.Errorf("I2: restored %+v, %t", v, ok)
			}
		})
	}
}
