package holdfasttest

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// What recorders write is what they keep, also in one file of several members whose last line was cut.
func TestRecordersRoundTrip(t *testing.T) {
	t.Parallel()
	p := stream.Partition{Topic: testInput, Partition: 3}
	var file bytes.Buffer
	one, two := NewRecorder("one", &file), NewRecorder("two", &file)
	h := one.Hooks()
	h.Assigned(stream.Assigned{Partition: p, Ownership: 1, Generation: 4, Committed: -1})
	two.Hooks().Lost(stream.Released{Partition: p, Ownership: 2, Cause: errors.New("gone")})
	h.Restored(stream.Restored{Partition: p, Start: 5, Retained: true})
	h.Committed(stream.Committed{Partition: p, Next: 6})
	h.Refused(stream.Refused{Partition: p, Cause: "generation"})
	h.Failed(stream.Failed{Partition: p, Offset: 7, Action: stream.Skip, Err: errors.New("bad")})
	h.DeadLettered(stream.DeadLettered{Partition: p, Offset: 8})
	h.Stalled(stream.Stalled{Partition: p, Diagnosis: "waits"})
	h.Revoked(stream.Released{Partition: p, Ownership: 1, Flushed: true})
	one.add(Event{Kind: EventFolded, Partition: p, Offset: 9, Key: []byte{0, 255}, Has: true, State: []byte("{}")})
	one.Stopped(nil)
	two.Stopped(errors.New("no broker"))
	file.WriteString(`{"member":"two","kind":"comm`)

	got, err := ReadMembers(&file)
	if err != nil {
		t.Fatal(err)
	}
	want := []Member{one.Member(), two.Member()}
	for _, m := range slices.Concat(got, want) {
		for i := range m.Events {
			m.Events[i].At = m.Events[i].At.UTC().Round(0) // without the monotonic reading, which is not written
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read  %+v\nwrote %+v", got, want)
	}
	if kinds := kindsOf(got[0]); len(kinds) != 10 {
		t.Errorf("events of the kinds %v, want ten", kinds)
	}
	if e := got[0].Events[1]; e.Kind != EventRestored || !e.Retained || e.Offset != 5 {
		t.Errorf("restored as %+v", e)
	}
}

func kindsOf(m Member) (kinds []string) {
	for _, e := range m.Events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestReadMembersRefusesGarbage(t *testing.T) {
	t.Parallel()
	if _, err := ReadMembers(strings.NewReader("not JSON\n")); err == nil {
		t.Error("a line that is not an event was taken")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestRecorderTellsThatItCannotWrite(t *testing.T) {
	t.Parallel()
	r := NewRecorder("one", failing{})
	r.Stopped(nil)
	if r.Err() == nil || len(r.Member().Events) != 1 {
		t.Errorf("error %v and %d events, want an error and the event", r.Err(), len(r.Member().Events))
	}
}

func TestCollectNamesATopicThatIsMissing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := Collect(ctx, Flow(testConfig(Broker(t))))
	if !errors.Is(err, stream.ErrTopic) || !strings.Contains(err.Error(), testInput) {
		t.Errorf("got %v, want ErrTopic and the topic's name", err)
	}
}

// heard is a test that keeps what it is told.
type heard struct {
	testing.TB
	told []string
}

func (h *heard) Helper()                        {}
func (h *heard) Error(args ...any)              { h.told = append(h.told, args[0].(Violation).String()) }
func (h *heard) Fatalf(format string, _ ...any) { h.told = append(h.told, format) }

func TestVerifyFailsWithTheInvariant(t *testing.T) {
	t.Parallel()
	r := newRun(t, Broker(t))
	m := r.start(t.Context(), "one")
	r.send("a 1", "b 2")
	m.await(EventFolded, 1, 1)
	m.stop()
	expect(t, r.check(), "")
	lost := Flow(r.conf)
	lost.apply = func(ctx context.Context, before value, rec stream.Record) applied {
		if string(rec.Key) == "b" {
			return applied{}
		}
		return Flow(r.conf).apply(ctx, before, rec)
	}
	h := &heard{TB: t}
	Verify(h, lost, m.rec.Member())
	if len(h.told) == 0 || !strings.HasPrefix(h.told[0], "I2: ") {
		t.Errorf("told %q, want I2 first", h.told)
	}
}

// The check of a long run takes seconds: what grew with the square of its length would take hours.
func TestLongHistory(t *testing.T) {
	t.Parallel()
	const records, keys, batch = 100_000, 10, 100
	w := world{next: records, meta: "hf1:a:3e8", atomic: true}
	var states [keys]tally
	for i := range int64(records) {
		k := int(i % keys)
		key := "k" + itoa(int64(k))
		states[k] = states[k].with(1)
		w.input = append(w.input, in{i, key, "1", Committed})
		w.outputs = append(w.outputs, out{key, states[k], Committed})
		if (i+1)%batch > 0 {
			continue
		}
		x := tx{status: Committed, nonce: 0xa, seq: uint64(i+1) / batch, generation: 1, member: "m", next: i + 1}
		for k, s := range states {
			x.snaps = append(x.snaps, snap{"k" + itoa(int64(k)), snapshot.State, i + 1 - keys + int64(k), uint64(s.N), s})
		}
		w.txs = append(w.txs, x)
	}
	began := time.Now()
	expect(t, w.check(t), "")
	t.Logf("%d records in %v", records, time.Since(began))
}

// A recorder that forgets still writes.
func TestRecorderForgets(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := NewRecorder("one", &out)
	r.Stopped(nil)
	r.Forget()
	r.Stopped(nil)
	if n := len(r.Member().Events); n != 0 {
		t.Errorf("%d events are kept", n)
	}
	read, err := ReadMembers(&out)
	if err != nil || len(read) != 1 || len(read[0].Events) != 2 {
		t.Errorf("written: %v (%v)", read, err)
	}
}
