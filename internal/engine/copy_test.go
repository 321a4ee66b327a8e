package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

// I2 and R29: with copies by the codec every failed step is undone, whatever the share of them, and what
// the others did stays. The copies share their room: a later one must not reach into a state.
func TestCopiesUndoEachFailedStep(t *testing.T) {
	t.Parallel()
	e := mapEngine(inPlace, nil)
	e.CopyByCodec()
	want := map[string]int{}
	for i := range int64(300) {
		r := rec(i, fmt.Sprint("key ", i%3), "")
		if i%2 == 1 && i > 6 {
			r.Value = []byte("fail")
		} else {
			want[string(r.Key)]++
		}
		switch res := e.Step(t.Context(), epoch0, r); {
		case res.Tainted:
			t.Fatalf("I7: the failed step at %d leaves a state that nobody knows", i)
		case res.Outcome == Failed:
			e.Skip(r)
		}
	}
	for key, n := range want {
		if v, _ := e.Get([]byte(key)); v.State["n"] != n {
			t.Errorf("I2: %s is %v, want n = %d", key, v.State, n)
		}
	}
}

// R29: after a step that spoiled a state the batch has what was done before it, whole or not. With Whole there
// is none if the spoiled state would be missing in it.
func TestBatchBeforeASpoiledState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		whole bool
		keys  []string
		next  int64
	}{
		{"clean", false, []string{"a", "b", "z"}, 2},
		{"dirty", false, []string{"a", "b", "b"}, 1},
		{"whole, clean", true, []string{"a", "b", "z"}, 2},
		{"whole, dirty", true, []string{"a", "b", "b"}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config[counts]{}
			mapEngine(inPlace, func(full *Config[counts]) { cfg = *full })
			cfg.Whole = c.whole
			e := New(cfg)
			if err := e.Load(Snapshot{Key: []byte("z"), Value: []byte(`{"n":1}`), Applied: -1}); err != nil {
				t.Fatal(err)
			}
			e.Start(epoch0, 0, 0, nil)
			for i, key := range c.keys {
				value := ""
				if i == len(c.keys)-1 {
					value = "fail"
				}
				if res := e.Step(t.Context(), epoch0, rec(int64(i), key, value)); res.Tainted != (value == "fail") {
					t.Fatalf("step %d: %+v", i, res)
				}
			}
			b, err := e.Close(epoch0, true)
			if err != nil {
				t.Fatal(err)
			}
			next := int64(-1)
			if b != nil {
				next = b.Next
			}
			if next != c.next {
				t.Errorf("I7: the batch before the spoiled state commits %d, want %d", next, c.next)
			}
		})
	}
}

// A state that the codec cannot copy is one that cannot be written: the failed step says so, but not where such
// a key is kept.
func TestStateThatCannotBeCopied(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"stop": false, "keep dirty": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mute := false
			e := mapEngine(inPlace, func(c *Config[counts]) {
				c.KeepDirty = keep
				encode := c.Encode
				c.Encode = func(dst []byte, s counts) ([]byte, error) {
					if mute {
						return nil, errors.New("no words")
					}
					return encode(dst, s)
				}
			})
			e.CopyByCodec()
			e.Step(t.Context(), epoch0, rec(0, "a", ""))
			mute = true
			if res := e.Step(t.Context(), epoch0, rec(1, "a", "")); res.Outcome != Folded {
				t.Errorf("a step that succeeds needs no copy: %+v", res)
			}
			res := e.Step(t.Context(), epoch0, rec(2, "a", "fail"))
			if !res.Tainted || errors.Is(res.Uncopied, stream.ErrEncode) == keep {
				t.Errorf("got %+v; want tainted, and %v unless the key is kept", res, stream.ErrEncode)
			}
		})
	}
}

// A codec that cannot read what it wrote is no way back.
func TestCopyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	e := mapEngine(inPlace, func(c *Config[counts]) {
		c.Decode = func([]byte) (counts, error) { return nil, errors.New("unreadable") }
	})
	e.CopyByCodec()
	e.Step(t.Context(), epoch0, rec(0, "a", ""))
	res := e.Step(t.Context(), epoch0, rec(1, "a", "fail"))
	if e, ok := errors.AsType[*stream.Error](res.Uncopied); !res.Tainted || !ok || string(e.Key) != "a" {
		t.Errorf("got %+v; want tainted, and an error with the key", res)
	}
}

// BenchmarkCopies is a step that changes a map of ten in place, by how it could be undone.
func BenchmarkCopies(b *testing.B) {
	for _, how := range []string{"not", "clone", "codec"} {
		b.Run(how, func(b *testing.B) {
			e := mapEngine(inPlace, func(c *Config[counts]) {
				if how == "clone" {
					c.Clone = maps.Clone[counts]
				}
			})
			full := counts{}
			for i := range 10 {
				full[fmt.Sprint("field ", i)] = i
			}
			value, err := json.Marshal(full)
			if err != nil {
				b.Fatal(err)
			}
			e = New(e.cfg)
			if err := e.Load(Snapshot{Key: []byte("a"), Value: value, Applied: -1}); err != nil {
				b.Fatal(err)
			}
			e.Start(epoch0, 0, 0, nil)
			if how == "codec" {
				e.CopyByCodec()
			}
			offset := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				e.Step(b.Context(), epoch0, rec(offset, "a", ""))
				offset++
			}
		})
	}
}
