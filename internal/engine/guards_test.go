package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

// What no sequence of calls reaches is refused all the same: an offset or a state that goes back (R9).
func TestGuardsOfWhatOnlyRises(t *testing.T) {
	t.Parallel()
	at5 := func() (*Engine[string], *entry[string]) {
		e := New(Config[string]{
			Plain: true, Encode: func(dst []byte, s string) ([]byte, error) { return append(dst, s...), nil },
			Fold: func(_ context.Context, c *Call[string], r stream.Record) error { c.Set(string(r.Value)); return nil },
		})
		e.Start(epoch0, 5, 5, nil)
		e.Step(t.Context(), epoch0, rec(5, "k", "v"))
		return e, e.keys["k"]
	}
	for name, c := range map[string]struct {
		want   string
		breaks func()
	}{
		"a batch below the committed offset": {CommittedRises, func() {
			e, _ := at5()
			e.committed = 9
			_, _ = e.Close(epoch0, true)
		}},
		"a write below what is persisted": {AppliedRises, func() {
			e, x := at5()
			x.persisted = 9
			_, _ = e.Close(epoch0, true)
		}},
		"an outcome below what is persisted": {AppliedRises, func() {
			e, x := at5()
			x.persisted = 9
			e.land(x, Write{Key: []byte("k"), Applied: 5})
		}},
	} {
		func() {
			defer func() {
				if v, ok := recover().(Invariant); !ok || v.Name != c.want {
					t.Errorf("%s: %v, want a violation of %s", name, v, c.want)
				}
			}()
			c.breaks()
		}()
	}
}

// The key in the error of a restore is the error's own: the caller may use its bytes again.
func TestKeyOfARestoreErrorIsItsOwn(t *testing.T) {
	t.Parallel()
	e := New(Config[string]{Decode: func([]byte) (string, error) { return "", errors.New("unreadable") }})
	key := []byte("k")
	err := e.Load(Snapshot{Key: key, Value: []byte("x")})
	key[0] = 'z'
	located, ok := errors.AsType[*stream.Error](err)
	if !ok || string(located.Key) != "k" {
		t.Errorf("the error names the key %q: %v", located.Key, err)
	}
}
