package snapshot

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

var update = flag.Bool("update", false, "write the golden files of the current format version")

// goldens are records whose bytes must never change within a format version.
var goldens = map[string]Record{
	"state": {Key: []byte("account-1"), Value: []byte(`{"cents":1200}`), Header: Header{Applied: []int64{41}, Steps: 7}},
	"empty": {Key: []byte{}, Value: []byte{}, Header: Header{}},
	// The empty key, which is a key: its deletion and its tombstone.
	"empty-deleted":   {Key: []byte{}, Kind: Deleted, Header: Header{Applied: []int64{5}, Steps: 2}},
	"empty-tombstone": {Key: []byte{}, Kind: Tombstone, Header: Header{Applied: []int64{5}}},
	"escaped":         {Key: []byte("\x00\x01"), Value: []byte("v"), Header: Header{Applied: []int64{0}}},
	"inputs":          {Key: []byte("k"), Value: []byte("v"), Header: Header{Applied: []int64{-1, 0, 300, math.MaxInt64 - 1}, Steps: math.MaxUint64, Incarnation: 3}},
	"deleted":         {Key: []byte("k"), Kind: Deleted, Header: Header{Applied: []int64{5}, Steps: 2}},
	"no-state":        {Key: []byte("k"), Kind: NoState, Header: Header{Applied: []int64{5}, Timers: []Timer{{"wake", 1700000000123}}}},
	"tombstone":       {Key: []byte("k"), Kind: Tombstone, Header: Header{Applied: []int64{5}, Incarnation: 1}},
	"timers": {Key: []byte("k"), Value: []byte("v"), Header: Header{Applied: []int64{9}, Steps: 11,
		Timers:  []Timer{{"", 0}, {"expire", 1700000000123}, {"früh", -5}},
		Firings: []Firing{{10, "wake", 1690000000000, 1690000000250}, {11, "", -1, 0}}}},
}

func dump(m stream.Message) string {
	word := func(b []byte) string {
		switch {
		case b == nil:
			return "null"
		case len(b) == 0:
			return "empty"
		}
		return hex.EncodeToString(b)
	}
	return fmt.Sprintf("key %s\nvalue %s\nheader %s %s\n", word(m.Key), word(m.Value), m.Headers[0].Key, word(m.Headers[0].Value))
}

func TestGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, rec := range goldens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", "v1", name+".golden")
			m, err := Encode(rec)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(path, []byte(dump(m)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := dump(m); got != string(golden) {
				t.Errorf("encodes as\n%s, the golden file has\n%s", got, golden)
			}
			back, err := Decode(parse(t, golden))
			if err != nil {
				t.Fatal(err)
			}
			if rec.Applied == nil {
				back.Applied = nil
			}
			if !reflect.DeepEqual(back, rec) {
				t.Errorf("decodes as %+v, want %+v", back, rec)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "v1", "*.golden"))
	if err != nil || len(files) != len(goldens) {
		t.Errorf("%d golden files for %d records, %v", len(files), len(goldens), err)
	}
}

// parse reads a golden file by itself, so that the decoder is tested against bytes that no code of
// today has made.
func parse(t *testing.T, golden []byte) stream.Record {
	t.Helper()
	field := func(line, name string) []byte {
		rest, ok := strings.CutPrefix(line, name+" ")
		if !ok {
			t.Fatalf("line %q does not begin with %q", line, name)
		}
		switch rest {
		case "null":
			return nil
		case "empty":
			return []byte{}
		}
		b, err := hex.DecodeString(rest)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	lines := strings.Split(strings.TrimSuffix(string(golden), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3", len(lines))
	}
	return stream.Record{Topic: "t", Key: field(lines[0], "key"), Value: field(lines[1], "value"),
		Headers: []stream.Header{{Key: "traceparent", Value: []byte("x")}, {Key: HeaderKey, Value: field(lines[2], "header "+HeaderKey)}}}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	good := []byte{1, 0, 1, 6, 2, 0, 0, 0}
	with := func(at int, b ...byte) []byte { return append(append(bytes.Clone(good[:at]), b...), good[at+1:]...) }
	for name, tc := range map[string]struct {
		change func(r *stream.Record)
		want   string
	}{
		"no key":                {func(r *stream.Record) { r.Key = nil }, "no key"},
		"reserved key":          {func(r *stream.Record) { r.Key = ReservedKey("progress") }, "reserved"},
		"foreign record":        {func(r *stream.Record) { r.Headers = nil }, "something else wrote"},
		"foreign tombstone":     {func(r *stream.Record) { r.Headers, r.Value = nil, nil }, "something else wrote"},
		"two headers":           {func(r *stream.Record) { r.Headers = append(r.Headers, r.Headers[0]) }, "several"},
		"empty header":          {func(r *stream.Record) { r.Headers[0].Value = nil }, "too early"},
		"later version":         {func(r *stream.Record) { r.Headers[0].Value = with(0, 2) }, "version 2 is not known"},
		"version alone":         {func(r *stream.Record) { r.Headers[0].Value = good[:1] }, "too early"},
		"unknown flag":          {func(r *stream.Record) { r.Headers[0].Value = with(1, 4) }, "flags 0x4"},
		"both flags":            {func(r *stream.Record) { r.Headers[0].Value = with(1, 3) }, "flags 0x3"},
		"flag beside a value":   {func(r *stream.Record) { r.Headers[0].Value = with(1, 1) }, "has a value"},
		"flag on a tombstone":   {func(r *stream.Record) { r.Headers[0].Value, r.Value = with(1, 2), nil }, "tombstone"},
		"cut":                   {func(r *stream.Record) { r.Headers[0].Value = good[:len(good)-1] }, "too early"},
		"trailing byte":         {func(r *stream.Record) { r.Headers[0].Value = append(bytes.Clone(good), 0) }, "behind its end"},
		"long form of a number": {func(r *stream.Record) { r.Headers[0].Value = with(3, 0x86, 0) }, "shortest form"},
		"too many inputs":       {func(r *stream.Record) { r.Headers[0].Value = with(2, 0x81, 8) }, "over its bound"},
		"count beyond the end":  {func(r *stream.Record) { r.Headers[0].Value = with(2, 9) }, "too early"},
		"offset out of range":   {func(r *stream.Record) { r.Headers[0].Value = with(3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1) }, "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stream.Record{Topic: "orders-state", Partition: 3, Offset: 41, Key: []byte("k"), Value: []byte("v"),
				Headers: []stream.Header{{Key: HeaderKey, Value: good}}}
			if _, err := Decode(r); err != nil {
				t.Fatalf("the record is meant to be good before the change: %v", err)
			}
			tc.change(&r)
			_, err := Decode(r)
			var e *stream.Error
			if !errors.Is(err, stream.ErrCorruptSnapshot) || !errors.As(err, &e) {
				t.Fatalf("got %v, want ErrCorruptSnapshot", err)
			}
			if e.Topic != "orders-state" || e.Partition != 3 || e.Offset != 41 || !bytes.Equal(e.Key, r.Key) {
				t.Errorf("the error names %s/%d offset %d key %q", e.Topic, e.Partition, e.Offset, e.Key)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q is missing in %q", tc.want, err)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rec      Record
		tooLarge bool
	}{
		"no key":             {Record{}, false},
		"value of a deleted": {Record{Key: []byte("k"), Value: []byte("v"), Kind: Deleted}, false},
		"unknown kind":       {Record{Key: []byte("k"), Kind: 9}, false},
		"applied below -1":   {Record{Key: []byte("k"), Header: Header{Applied: []int64{-2}}}, false},
		"applied at the end": {Record{Key: []byte("k"), Header: Header{Applied: []int64{math.MaxInt64}}}, false},
		"many inputs":        {Record{Key: []byte("k"), Header: Header{Applied: make([]int64, MaxInputs+1)}}, true},
		"many timers":        {Record{Key: []byte("k"), Header: Header{Timers: make([]Timer, MaxTimers+1)}}, true},
		"many firings":       {Record{Key: []byte("k"), Header: Header{Firings: make([]Firing, MaxFirings+1)}}, true},
		"long name":          {Record{Key: []byte("k"), Header: Header{Timers: []Timer{{Name: strings.Repeat("n", MaxTimerName+1)}}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := Encode(tc.rec)
			if err == nil || errors.Is(err, stream.ErrTooLarge) != tc.tooLarge {
				t.Errorf("got %v and %v", m, err)
			}
		})
	}
}

func TestEncodeAtTheBoundsDecodes(t *testing.T) {
	t.Parallel()
	rec := Record{Key: []byte("k"), Value: []byte("v"), Header: Header{
		Applied: make([]int64, MaxInputs), Timers: make([]Timer, MaxTimers), Firings: make([]Firing, MaxFirings)}}
	rec.Timers[0].Name = strings.Repeat("n", MaxTimerName)
	m, err := Encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(stream.Record{Key: m.Key, Value: m.Value, Headers: m.Headers})
	if err != nil || !reflect.DeepEqual(back, rec) {
		t.Errorf("a record at all bounds does not come back: %v", err)
	}
}

func FuzzHeader(f *testing.F) {
	for _, rec := range goldens {
		m, err := Encode(rec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m.Headers[0].Value)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		flags, h, err := decodeHeader(b)
		if err != nil {
			return
		}
		again, err := appendHeader(nil, flags, &h)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x decodes to %+v, which encodes to %x, %v", b, h, again, err)
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte(nil), []byte{0})
	f.Add([]byte{0}, []byte{0, 0})
	f.Add([]byte{0, 1}, []byte{1})
	f.Add(ReservedKey("progress"), []byte("progress"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ea, eb := EscapeKey(a), EscapeKey(b)
		if bytes.Equal(ea, eb) != bytes.Equal(a, b) {
			t.Errorf("%x and %x escape to %x and %x", a, b, ea, eb)
		}
		if Reserved(ea) {
			t.Errorf("%x escapes to the reserved key %x", a, ea)
		}
		if back, ok := UnescapeKey(ea); !ok || !bytes.Equal(back, a) {
			t.Errorf("%x comes back as %x, %v", a, back, ok)
		}
		if _, ok := UnescapeKey(a); ok == Reserved(a) {
			t.Errorf("%x is reserved and unescapes, or neither", a)
		}
	})
}

// Each user's key has a record key of its own, which is nobody's else, is not reserved and comes back as it was: the
// empty one too, which stays empty and does not become nil.
func TestKeysComeBack(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, key := range []string{"", "a", "\x00", "\x00\x00", "\x00a", "\x00\x00a", "a\x00", "progress", "\x00progress"} {
		record := EscapeKey([]byte(key))
		if other, ok := seen[string(record)]; ok || record == nil || Reserved(record) {
			t.Errorf("I2: the key %q is the record key %#v, as %q is", key, record, other)
		}
		seen[string(record)] = key
		if user, ok := UnescapeKey(record); !ok || user == nil || string(user) != key {
			t.Errorf("I2: the key %q comes back as %#v, %t", key, user, ok)
		}
	}
	if _, ok := seen[string(ReservedKey("progress"))]; ok {
		t.Error("I2: a user's key is the progress record's")
	}
}
