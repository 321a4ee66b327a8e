package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// jsonLog keeps log lines as JSON.
type jsonLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *jsonLog) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

// lines returns the lines with a message.
func (j *jsonLog) lines(t *testing.T, message string) (out []map[string]any) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range bytes.Lines(j.b.Bytes()) {
		var l map[string]any
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		if l["msg"] == message {
			out = append(out, l)
		}
	}
	return out
}

// fencesInARow is the number of producer fences in a row that stops a flow (R8).
const fencesInARow = 5

// idIsTaken checks what a flow leaves behind that was fenced too often: error, hooks and log lines.
func idIsTaken(t *testing.T, f *flow, log *jsonLog, group, id string) {
	t.Helper()
	var e *stream.Error
	if !errors.Is(f.err, stream.ErrIDTaken) || !errors.As(f.err, &e) || e.TransactionalID != id || e.Hint == "" {
		t.Errorf("the flow ended with %v, want the id %s and what to do", f.err, id)
	}
	var refused []stream.Refused
	for _, r := range each[stream.Refused](f) {
		if r.Cause == "producer-epoch" {
			refused = append(refused, r)
		}
	}
	if len(refused) != fencesInARow || refused[0].Final || !refused[len(refused)-1].Final {
		t.Errorf("refusals %+v, want %d by epoch, the last one final", refused, fencesInARow)
	}
	if stops := each[stream.Stopped](f); len(stops) != 1 || stops[0].Cause != "id-taken" || stops[0].Group != group {
		t.Errorf("stops %+v, want one of %s", stops, group)
	}
	if l := log.lines(t, "flow stops"); len(l) != 1 || l[0]["cause"] != "id-taken" || l[0]["level"] != "ERROR" {
		t.Errorf("lines of the stop: %v", l)
	}
	final := 0
	for _, l := range log.lines(t, "transaction did not commit") {
		if l["cause"] == "producer-epoch" && l["final"] == true {
			final++
		}
	}
	if final != 1 {
		t.Errorf("%d lines of a final fence, want 1", final)
	}
}

// Something outside the group initialises the partition's id again and again, each time when a commit
// is about to be bound. The flow reads back, sends the same bytes again, and stops at the fifth fence in
// a row: with an error that names the id, a hook with the cause, and the two log lines that alerts match.
// Nothing is lost: once the stranger is gone the next run commits what was folded.
// Public case J2.
func TestKafkaStrangerUnderTheSameID(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	a := newTap(t, c)
	input := c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	group := input + "-flow"
	id := idOf(group, 0)
	pr := producer(t, c)
	produce(t, pr, input, 0, 3, 0, 10)
	log := &jsonLog{}
	conf := tapped(config(c.Addrs, group, input), a, "A")
	conf.Logger = slog.New(slog.NewJSONHandler(log, nil))
	f := start(t, t.Context(), "A", conf)
	f.committedTo(0, 10)

	bind := a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.TxnOffsetCommit))
	t.Cleanup(bind.Lift)
	mark := a.mark()
	produce(t, pr, input, 0, 3, 10, 20)
	for i := range fencesInARow {
		caught(t, bind, i+1)
		stranger := c.Client(t, kgo.TransactionalID(id))
		if _, _, err := stranger.ProducerID(t.Context()); err != nil {
			t.Fatal(err)
		}
		stranger.Close()
		bind.Release()
	}
	select {
	case <-f.done:
	case <-time.After(patience):
		t.Fatal("the flow goes on after five fences in a row")
	}

	idIsTaken(t, f, log, group, id)
	if n := took(a.seen(mark, isRequest[*kmsg.InitProducerIDRequest](under(id)))); n != fencesInARow-1 {
		t.Errorf("the id was initialised %d times, want once after each fence but the last", n)
	}
	(&duel{t: t}).asked(a)
	if next := committed(t, c, group, input)[0]; next != 10 {
		t.Errorf("offset %d is committed, want 10", next)
	}

	f = start(t, t.Context(), "again", config(c.Addrs, group, input))
	f.committedTo(0, 20)
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	for _, d := range check(t, c, group, input, group+"-snapshots") {
		t.Error(d)
	}
}
