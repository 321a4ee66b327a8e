package member

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/stream"
)

// unencodable is a worker with a batch of two keys, the second of which cannot be made a record.
func unencodable(t *testing.T, change func(*engine.Settings, *Config)) (*worker, error) {
	t.Helper()
	c := Config{Logger: slog.New(slog.DiscardHandler)}
	settings := engine.Settings{Partition: stream.Partition{Topic: "in", Partition: 3}}
	change(&settings, &c)
	e := engine.New(engine.Config[int]{
		Settings: settings, Plain: true,
		Fold:   func(_ context.Context, c *engine.Call[int], _ stream.Record) error { c.Set(1); return nil },
		Encode: func(dst []byte, _ int) ([]byte, error) { return append(dst, '1'), nil },
	})
	e.Start(time.Now(), 0, 0, nil)
	m := New(c)
	w := &worker{m: m, own: &fence.Ownership{}, log: m.log, ctx: t.Context(), engine: e, outcome: make(chan error, 1)}
	w.outputs.init(w)
	for offset, key := range []string{"a", ""} {
		if r := e.Step(t.Context(), time.Now(), stream.Record{Topic: "in", Partition: 3, Offset: int64(offset), Key: []byte(key)}); r.Failure != nil {
			t.Fatal(r.Failure)
		}
	}
	b, err := e.Close(time.Now(), true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Writes {
		if len(b.Writes[i].Key) == 0 {
			b.Writes[i].Deleted = true // with a value, for which the format has no words
		}
	}
	w.inflight = b
	return w, w.commit(b)
}

// I6: a record that cannot be made, as one that the broker refuses, is told with its topic, partition, offset
// and key. Without them a flow ended at each start, and nobody could tell which record to look for.
func TestEncodingErrorHasItsPlace(t *testing.T) {
	t.Parallel()
	w, err := unencodable(t, func(*engine.Settings, *Config) {})
	err = w.settle(err)
	var e *stream.Error
	if !errors.Is(err, stream.ErrEncode) || !errors.As(err, &e) || e.Topic != "in" || e.Partition != 3 || e.Offset != 1 || e.Key == nil || len(e.Key) != 0 || e.Hint == "" {
		t.Errorf("I6: the error %v does not name in/3, offset 1 and the empty key", err)
	}
	if stop := (*stopError)(nil); !errors.As(err, &stop) {
		t.Errorf("the partition does not stop: %v", err)
	}
}

// The same with KeepDirty: the other key is committed, and the one at fault stays, by name.
func TestEncodingErrorIsKept(t *testing.T) {
	t.Parallel()
	var told []stream.Refused
	w, err := unencodable(t, func(s *engine.Settings, c *Config) {
		s.KeepDirty = true
		c.Hooks = []stream.Hooks{{Refused: func(e stream.Refused) { told = append(told, e) }}}
	})
	refusal, ok := errors.AsType[*fence.Refusal](err)
	if !ok {
		t.Fatalf("the commit says %v", err)
	}
	rest, err := w.engine.Refused(time.Now(), w.inflight, refusal.Index, refusal)
	w.tellKept()
	if err != nil || len(rest.Writes) != 1 || string(rest.Writes[0].Key) != "a" || rest.Next != 1 {
		t.Fatalf("I1: what is committed is %+v (%v), want the key a and the offset of the other one", rest, err)
	}
	var e *stream.Error
	if len(told) != 1 || !errors.As(told[0].Err, &e) || e.Offset != 1 || e.Key == nil {
		t.Errorf("hooks are told %+v", told)
	}
}

// With whole batches the step of that record is at fault, and the policy is asked about it.
func TestEncodingErrorOfAWholeBatch(t *testing.T) {
	t.Parallel()
	w, err := unencodable(t, func(s *engine.Settings, c *Config) { s.Whole, c.Whole = true, true })
	if err = w.settle(err); !errors.Is(err, stream.ErrOwnershipLost) {
		t.Fatalf("the state does not go back: %v", err)
	}
	failure := w.m.refusal(stream.Record{Offset: 1})
	if failure == nil || !errors.Is(failure.Err, stream.ErrEncode) {
		t.Errorf("I6: the policy will not be asked about offset 1: %+v", failure)
	}
}
