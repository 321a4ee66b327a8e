package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/codec"
)

type account struct {
	Name  string           `json:"name"`
	Parts map[string]int64 `json:"parts,omitempty"`
}

// check proves the three promises of a codec for one state: it appends, it is deterministic, and
// what it decodes shares nothing with its input.
func check[S any](t *testing.T, c codec.Codec[S], s S) {
	t.Helper()
	first, err := c.Append([]byte("before"), s)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(first, []byte("before")) {
		t.Fatalf("Append does not append: %q", first)
	}
	src := bytes.Clone(first[len("before"):])
	state, err := c.Decode(src)
	if err != nil {
		t.Fatal(err)
	}
	for i := range src {
		src[i] = '#'
	}
	again, err := c.Append(nil, state)
	if err != nil || !bytes.Equal(again, first[len("before"):]) {
		t.Fatalf("after decoding: %q, %v, want %q", again, err, first[len("before"):])
	}
}

func TestCodecs(t *testing.T) {
	t.Parallel()
	many := account{Name: "<a&b>", Parts: map[string]int64{}}
	for _, k := range []string{"q", "w", "e", "r", "t", "y", "u", "i", "o", "p"} {
		many.Parts[k] = int64(len(many.Parts))
	}
	for range 20 {
		check(t, codec.JSON[account](), many)
	}
	check(t, codec.JSON[json.RawMessage](), json.RawMessage(`{"a":1}`))
	check(t, codec.JSON[*account](), &many)
	check(t, codec.JSON[int64](), math.MinInt64)
	check(t, codec.Bytes(), []byte{0, 255, 0xF7})
	check(t, codec.Bytes(), nil)
	check(t, codec.String(), "x\x00\xff")
	check[account](t, codec.Versioned(codec.JSON[account]()), many)
}

func TestJSONErrorsLeaveDst(t *testing.T) {
	t.Parallel()
	dst, err := codec.JSON[float64]().Append([]byte("kept"), math.Inf(1))
	if err == nil || string(dst) != "kept" {
		t.Fatalf("Append of infinity: %q, %v, want the error and dst as it was", dst, err)
	}
	dst, err = codec.Versioned(codec.JSON[float64]()).Append([]byte("kept"), math.Inf(1))
	if err == nil || string(dst) != "kept" {
		t.Fatalf("versioned Append of infinity: %q, %v, want the error and dst as it was", dst, err)
	}
	for _, src := range []string{"", "{", `{} {}`, `[]`} {
		if _, err := codec.JSON[account]().Decode([]byte(src)); err == nil {
			t.Errorf("Decode(%q) has no error", src)
		}
	}
}

func addExclamation(old []byte) ([]byte, error) { return append(old, '!'), nil }

func TestVersioned(t *testing.T) {
	t.Parallel()
	v1 := codec.Versioned(codec.String())
	v3 := codec.Versioned(codec.String(), addExclamation, func(old []byte) ([]byte, error) {
		if string(old) == "bad!" {
			return nil, errors.New("cannot")
		}
		return bytes.ToUpper(old), nil
	})
	encode := func(c codec.VersionedCodec[string], s string) []byte {
		out, err := c.Append(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, tc := range map[string]struct {
		c    codec.VersionedCodec[string]
		src  []byte
		want string
		err  error
	}{
		"current":                {c: v3, src: encode(v3, "x"), want: "x"},
		"two upgrades":           {c: v3, src: encode(v1, "x"), want: "X!"},
		"newer":                  {c: v1, src: encode(v3, "x"), err: codec.ErrNewerVersion},
		"unversioned refused":    {c: v3, src: []byte("x"), err: codec.ErrNoVersion},
		"unversioned accepted":   {c: v3.AcceptUnversioned(), src: []byte("x"), want: "X!"},
		"versioned all the same": {c: v3.AcceptUnversioned(), src: encode(v3, "x"), want: "x"},
		"empty":                  {c: v3, src: nil, err: codec.ErrNoVersion},
		"marker alone":           {c: v3.AcceptUnversioned(), src: []byte{0xF7}, err: codec.ErrNoVersion},
		"version nought":         {c: v3, src: []byte{0xF7, 0}, err: codec.ErrNoVersion},
		"endless varint":         {c: v3, src: append([]byte{0xF7}, bytes.Repeat([]byte{0xFF}, 20)...), err: codec.ErrNoVersion},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := bytes.Clone(tc.src)
			got, err := tc.c.Decode(tc.src)
			if !errors.Is(err, tc.err) || got != tc.want {
				t.Fatalf("Decode: %q, %v, want %q, %v", got, err, tc.want, tc.err)
			}
			if !bytes.Equal(before, tc.src) {
				t.Fatalf("Decode changed its input from %q to %q", before, tc.src)
			}
		})
	}
	if _, err := v3.Decode(encode(v1, "bad")); err == nil {
		t.Fatal("a failed upgrade was not reported")
	}
	if v1.Version() != 1 || v3.Version() != 3 {
		t.Fatalf("versions %d and %d, want 1 and 3", v1.Version(), v3.Version())
	}
}

// TestUpgradeDoesNotWriteIntoInput gives Decode a slice with room behind it, as a buffer of a fetch
// has: an upgrade that appends must not reach the next record.
func TestUpgradeDoesNotWriteIntoInput(t *testing.T) {
	t.Parallel()
	buf := []byte{0xF7, 1, 'x', 'N'}
	if _, err := codec.Versioned(codec.String(), addExclamation).Decode(buf[:3]); err != nil {
		t.Fatal(err)
	}
	if buf[3] != 'N' {
		t.Fatalf("the byte after the input became %q", buf[3])
	}
}

func FuzzVersionedDecode(f *testing.F) {
	f.Add([]byte{0xF7, 1, 'x'})
	f.Add([]byte{0xF7, 2})
	f.Add([]byte("plain"))
	c := codec.Versioned(codec.Bytes(), addExclamation)
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := c.Decode(src)
		if err != nil {
			if s != nil {
				t.Fatalf("an error came with a state: %q", s)
			}
			return
		}
		out, err := c.Append(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := c.Decode(out); err != nil || !bytes.Equal(back, s) {
			t.Fatalf("round trip of %q: %q, %v", s, back, err)
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"name":"a","parts":{"b":1}}`))
	c := codec.JSON[account]()
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := c.Decode(src)
		if err != nil {
			return
		}
		one, err := c.Append(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := c.Decode(one)
		if err != nil {
			t.Fatal(err)
		}
		if two, err := c.Append(nil, back); err != nil || !bytes.Equal(one, two) {
			t.Fatalf("%q became %q: %v", one, two, err)
		}
	})
}

// secretive is a state whose own methods quote what they fail on.
type secretive struct{ When time.Time }

func (s secretive) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("cannot encode %q", "4111-1111")
}

// Errors are logged, and states are data.
func TestErrorsHaveNoValues(t *testing.T) {
	t.Parallel()
	type state struct {
		Card  int8
		Names map[string]int8
		When  time.Time
	}
	for _, src := range []string{`{"Card":41111111}`, `{"Card":"4111-1111"}`, `4111-1111`, `{"Card":4111-1111}`, `{"When":"4111-1111"}`,
		`{"Names":{"4111-1111":4111}}`, `{"Card":4.111e11}`, "\x1b4111", `{"Names":{"a":"4111"}}`} {
		_, err := codec.JSON[state]().Decode([]byte(src))
		if err == nil || strings.Contains(err.Error(), "4111") || strings.Contains(err.Error(), "4.11") || strings.Contains(err.Error(), "x1b") {
			t.Errorf("I6: decode %q: %v", src, err)
		}
		if errors.Unwrap(errors.Unwrap(err)) == nil {
			t.Errorf("decode %q: the error of encoding/json is not behind %v", src, err)
		}
	}
	for _, encode := range []func() error{
		func() error { _, err := codec.JSON[secretive]().Append(nil, secretive{}); return err },
		func() error { _, err := codec.JSON[float64]().Append(nil, math.Inf(1)); return err },
		func() error { _, err := codec.JSON[any]().Append(nil, func() {}); return err },
	} {
		if err := encode(); err == nil || strings.Contains(err.Error(), "4111") {
			t.Errorf("I6: encode: %v", err)
		}
	}
	var typed *json.UnmarshalTypeError
	if _, err := codec.JSON[state]().Decode([]byte(`{"Card":300}`)); !errors.As(err, &typed) || typed.Field != "Card" {
		t.Errorf("%v is no UnmarshalTypeError of Card", err)
	}
}
