package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

type counts = map[string]int

var epoch0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// mapEngine returns an engine whose state is a map, with fold as its fold, started at 0.
func mapEngine(fold func(*Call[counts], stream.Record) error, change func(*Config[counts])) *Engine[counts] {
	cfg := Config[counts]{
		Settings: Settings{Partition: stream.Partition{Topic: "in"}},
		Fold:     func(_ context.Context, c *Call[counts], r stream.Record) error { return fold(c, r) },
		Encode: func(dst []byte, s counts) ([]byte, error) {
			b, err := json.Marshal(s)
			return append(dst, b...), err
		},
		Decode: func(src []byte) (s counts, err error) { return s, json.Unmarshal(src, &s) },
	}
	if change != nil {
		change(&cfg)
	}
	e := New(cfg)
	e.Start(epoch0, 0, 0, nil)
	return e
}

func rec(offset int64, key, value string) stream.Record {
	return stream.Record{Topic: "in", Offset: offset, Key: []byte(key), Value: []byte(value)}
}

// inPlace changes the map in place and fails on the value "fail".
func inPlace(c *Call[counts], r stream.Record) error {
	s, ok := c.State()
	if !ok {
		c.Set(counts{"n": 1})
		return nil
	}
	s["n"]++
	if string(r.Value) == "fail" {
		return errors.New("no")
	}
	return nil
}

func withClone(c *Config[counts]) { c.Clone = maps.Clone[counts] }

func TestFailedStepOnReferences(t *testing.T) {
	t.Parallel()
	set := func(c *Call[counts], r stream.Record) error {
		c.Set(counts{"n": 5})
		if string(r.Value) == "fail" {
			return errors.New("no")
		}
		return nil
	}
	for _, c := range []struct {
		name    string
		fold    func(*Call[counts], stream.Record) error
		change  func(*Config[counts])
		copies  bool
		tainted bool
	}{
		{"no clone, state handed out", inPlace, nil, false, true},
		{"no clone, state never handed out", set, nil, false, false},
		{"clone", inPlace, withClone, false, false},
		{"copied by the codec", inPlace, nil, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := mapEngine(c.fold, c.change)
			if c.copies {
				e.CopyByCodec()
			}
			e.Step(t.Context(), epoch0, rec(0, "a", ""))
			before, _ := e.Get([]byte("a"))
			want := before.State["n"]
			res := e.Step(t.Context(), epoch0, rec(1, "a", "fail"))
			if res.Outcome != Failed || res.Tainted != c.tainted {
				t.Fatalf("got %v, tainted %v; want failed, tainted %v", res.Outcome, res.Tainted, c.tainted)
			}
			after, _ := e.Get([]byte("a"))
			if got := after.State["n"]; !c.tainted && got != want {
				t.Errorf("I2: the failed step left a trace: %d, was %d", got, want)
			}
		})
	}
}

// A change in place is kept by a step that succeeds, with Clone as without it.
func TestChangeInPlace(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config[counts]){"clone": withClone, "no clone": nil} {
		e := mapEngine(inPlace, change)
		for i := range int64(3) {
			e.Step(t.Context(), epoch0, rec(i, "a", ""))
		}
		if v, _ := e.Get([]byte("a")); v.State["n"] != 3 {
			t.Errorf("%s: got %v, want n = 3", name, v.State)
		}
	}
}

// Without Clone the state is handed out only if the fold asks, and Clone is called only then.
func TestCloneIsLazy(t *testing.T) {
	t.Parallel()
	clones := 0
	e := mapEngine(
		func(c *Call[counts], _ stream.Record) error { c.Set(counts{}); return nil },
		func(cfg *Config[counts]) { cfg.Clone = func(s counts) counts { clones++; return s } },
	)
	for i := range int64(3) {
		e.Step(t.Context(), epoch0, rec(i, "a", ""))
	}
	if clones != 0 {
		t.Errorf("%d clones for folds that never read the state", clones)
	}
}

// After a spoiled state no step is possible. What the other keys have is still committed, up to the
// hold of the spoiled one.
func TestTaintedKeyIsNotWritten(t *testing.T) {
	t.Parallel()
	e := mapEngine(inPlace, nil)
	e.Step(t.Context(), epoch0, rec(0, "a", ""))
	e.Step(t.Context(), epoch0, rec(1, "b", ""))
	e.Step(t.Context(), epoch0, rec(2, "c", ""))
	if res := e.Step(t.Context(), epoch0, rec(3, "b", "fail")); !res.Tainted {
		t.Fatal("not tainted")
	}
	b, err := e.Close(epoch0, true)
	if err != nil || b == nil || b.Next != 1 || len(b.Writes) != 2 {
		t.Fatalf("got %+v, %v; want a and c, next 1", b, err)
	}
	e.Committed(epoch0, b)
	if b, err := e.Close(epoch0, true); b != nil || err != nil {
		t.Fatalf("got %+v, %v; want nothing", b, err)
	}
	if got := panicOf(func() { e.Step(t.Context(), epoch0, rec(3, "b", "")) }); got.Name != TaintedIsUnused {
		t.Errorf("a step after taint: got %q", got.Name)
	}
}

// A key that is spoiled while its write is in flight: the bytes in flight are good, and if they are
// aborted its hold stays.
func TestTaintedInFlight(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		e := mapEngine(inPlace, nil)
		e.Step(t.Context(), epoch0, rec(0, "a", ""))
		b, err := e.Close(epoch0, true)
		if err != nil {
			t.Fatal(err)
		}
		e.Step(t.Context(), epoch0, rec(1, "a", "fail"))
		if got := string(b.Writes[0].Value); got != `{"n":1}` {
			t.Errorf("the bytes in flight changed: %s", got)
		}
		want := int64(-1)
		if commit {
			e.Committed(epoch0, b)
		} else {
			e.Aborted(epoch0, b)
			want = 0
		}
		if s := e.Stats(); s.OldestHold != want || s.Dirty != 0 {
			t.Errorf("commit %v: got %+v, want oldest hold %d and nothing dirty", commit, s, want)
		}
	}
}

// none is a map that cannot be written to.
func none() counts { return nil }

func TestFailureCarriesTheCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	e := mapEngine(func(_ *Call[counts], r stream.Record) error {
		switch string(r.Value) {
		case "panic":
			panic(cause)
		case "nil":
			none()["x"] = 1
		}
		return cause
	}, nil)
	for i, c := range []struct {
		value    string
		panicked bool
		text     string
	}{{"error", false, "cause"}, {"panic", true, "step_test.go"}, {"nil", true, "nil map"}} {
		f := e.Step(t.Context(), epoch0, rec(0, "a", c.value)).Failure
		if f.Panicked != c.panicked || f.Attempt != i+1 || f.Record.Offset != 0 {
			t.Errorf("%s: got %+v", c.value, f)
		}
		if !strings.Contains(f.Error(), c.text) {
			t.Errorf("%s: %q is not in %q", c.value, c.text, f.Error())
		}
		if c.value != "nil" && !errors.Is(f, cause) {
			t.Errorf("%s: does not wrap its cause", c.value)
		}
	}
	e = mapEngine(inPlace, func(c *Config[counts]) { c.Outputs = map[string]int{"out": 0} })
	if f := e.Step(t.Context(), epoch0, stream.Record{}).Failure; !errors.Is(f, stream.ErrNoKey) {
		t.Errorf("no key: got %v", f)
	}
}

func TestErrorsWrapTheirSentinels(t *testing.T) {
	t.Parallel()
	e := mapEngine(inPlace, func(c *Config[counts]) { c.MaxRecordBytes = 1 })
	e.Step(t.Context(), epoch0, rec(0, "key", ""))
	_, err := e.Close(epoch0, true)
	var at *stream.Error
	if !errors.Is(err, stream.ErrTooLarge) || !errors.As(err, &at) || string(at.Key) != "key" || at.Hint == "" {
		t.Errorf("too large: got %v", err)
	}
	e = mapEngine(inPlace, func(c *Config[counts]) {
		c.Encode = func([]byte, counts) ([]byte, error) { panic("codec") }
	})
	e.Step(t.Context(), epoch0, rec(0, "key", ""))
	if _, err := e.Close(epoch0, true); !errors.Is(err, stream.ErrEncode) {
		t.Errorf("encode: got %v", err)
	}
	e = New(Config[counts]{Decode: func([]byte) (counts, error) { return nil, errStub }})
	err = e.Load(Snapshot{Key: []byte("key"), Value: []byte("x")})
	if !errors.Is(err, stream.ErrCorruptSnapshot) || !errors.Is(err, errStub) || !errors.As(err, &at) || string(at.Key) != "key" {
		t.Errorf("decode: got %v", err)
	}
}

// Snapshot values stay as they are, whatever else is encoded after them, and are never nil: nil is
// a tombstone.
func TestWriteBytesAreTheirOwn(t *testing.T) {
	t.Parallel()
	for name, encode := range map[string]func([]byte, string) ([]byte, error){
		"appends":  func(dst []byte, s string) ([]byte, error) { return append(dst, s...), nil },
		"own":      func(_ []byte, s string) ([]byte, error) { return []byte(s), nil },
		"nothing":  func([]byte, string) ([]byte, error) { return nil, nil },
		"in steps": func(dst []byte, s string) ([]byte, error) { return append(append(dst, s[:1]...), s[1:]...), nil },
	} {
		e := New(Config[string]{
			Plain: true, Encode: encode,
			Fold: func(_ context.Context, c *Call[string], r stream.Record) error { c.Set(string(r.Value)); return nil },
		})
		e.Start(epoch0, 0, 0, nil)
		values := []string{"a", strings.Repeat("b", 100), strings.Repeat("c", arenaBytes-200), strings.Repeat("d", 2*arenaBytes), "e"}
		for i, v := range values {
			e.Step(t.Context(), epoch0, rec(int64(i), v[:1], v))
		}
		b, err := e.Close(epoch0, true)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range b.Writes {
			want := values[i]
			if name == "nothing" {
				want = ""
			}
			if w.Value == nil || string(w.Value) != want || string(w.Key) != values[i][:1] {
				t.Errorf("%s: write %d of %q has %d bytes, want %d", name, i, w.Key, len(w.Value), len(want))
			}
			if cap(w.Value) != len(w.Value) || cap(w.Key) != len(w.Key) {
				t.Errorf("%s: write %d can be appended to in place", name, i)
			}
		}
	}
}

func panicOf(f func()) (inv Invariant) {
	defer func() { inv, _ = recover().(Invariant) }()
	f()
	return Invariant{}
}

// A drain closes batches until there is nothing left to write. With KeepDirty a key that the broker
// refuses each time must not keep it from its end.
func TestDrainEndsBesideARefusedKey(t *testing.T) {
	t.Parallel()
	e := mapEngine(inPlace, func(c *Config[counts]) { c.KeepDirty = true })
	for i, key := range []string{"a", "refused", "b"} {
		if r := e.Step(t.Context(), epoch0, rec(int64(i), key, "")); r.Outcome != Folded {
			t.Fatal(r.Outcome)
		}
	}
	refusals, written := 0, map[string]bool{}
	b, err := e.Close(epoch0, true)
	for ; b != nil && err == nil && refusals < 5; b, err = e.Close(epoch0, true) {
		for b != nil {
			i := slices.IndexFunc(b.Writes, func(w Write) bool { return string(w.Key) == "refused" })
			if i < 0 {
				for _, w := range b.Writes {
					written[string(w.Key)] = true
				}
				e.Committed(epoch0, b)
				break
			}
			refusals++
			if b, err = e.Refused(epoch0, b, i, errors.New("no")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err != nil || refusals != 1 || !written["a"] || !written["b"] || e.CommittedOffset() != 1 {
		t.Errorf("%d refusals, written %v, committed %d, error %v", refusals, written, e.CommittedOffset(), err)
	}
	later := epoch0.Add(backoffMax)
	if b, err := e.Close(later, true); err != nil || b == nil || string(b.Writes[0].Key) != "refused" {
		t.Errorf("after the pause: %+v, %v", b, err)
	}
}
