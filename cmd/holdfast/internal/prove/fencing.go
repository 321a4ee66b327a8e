package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	// fenceLimit is after how many refusals in a row the writer has to stop.
	fenceLimit = 5

	firstBefore  = 1 // the offset that the first process commits undisturbed
	firstRefused = 2 // the offset that it tries to commit against the second
	firstEvent   = "first"
	fencedEvent  = "fenced"
	secondEvent  = "second"
)

// Fencing is what became of a process whose transactional id a second one initialises.
type Fencing struct {
	ID            string `json:"transactionalID"`
	FirstProcess  int    `json:"firstProcess"`
	SecondProcess int    `json:"secondProcess"`
	// Inits are the producer epochs that the second process was given, each while the first had a
	// transaction open.
	Inits    []Epoch   `json:"inits"`
	Refusals []Refusal `json:"refusals"`
	Limit    int       `json:"limit"` // of refusals in a row
	// Stopped is the error that the first stopped with; StoppedAs is stream.ErrIDTaken or
	// stream.ErrOwnershipLost, whichever it is, and "" for any other.
	Stopped   string `json:"stopped"`
	StoppedAs string `json:"stoppedAs"`
	TookMs    int64  `json:"tookMs"` // from the write until it stopped

	Before        int64 `json:"committedBefore"`
	After         int64 `json:"committedAfter"`
	FirstVisible  int   `json:"firstVisible"`  // refused records of the first, to a read_committed reader
	SecondVisible int   `json:"secondVisible"` // those of the second
}

// Epoch is an initialisation of a transactional id.
type Epoch struct {
	ProducerID int64 `json:"producerID"`
	Epoch      int16 `json:"epoch"`
}

// Refusal is one transaction of the first process that the broker refused.
type Refusal struct {
	AfterMs int64  `json:"afterMs"` // since the write began
	Cause   string `json:"cause"`
	Code    int16  `json:"code"`
	Answer  string `json:"answer"`
	Final   bool   `json:"final"`
}

// duel lets the second process initialise the id whenever records of the first have been acknowledged
// and its offset has not been sent: the first has a transaction open then. It is a hook of the first
// writer's clients, which wait while a hook is called.
type duel struct {
	ctx    context.Context
	second *second

	mu    sync.Mutex
	on    bool
	inits []Epoch
	peer  int
	err   error
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (d *duel) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key != int16(kmsg.Produce) || err != nil {
		return
	}
	d.mu.Lock()
	on := d.on && d.err == nil
	d.mu.Unlock()
	if !on {
		return
	}
	// One transaction of the first is open at a time, so that the second process has one order at a time.
	a, err := d.second.order(d.ctx, orderInit)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.err = err
		return
	}
	d.peer = a.Process
	d.inits = append(d.inits, Epoch{ProducerID: a.ProducerID, Epoch: a.Epoch})
}

func (d *duel) begin(on bool) (inits []Epoch, peer int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = on
	return d.inits, d.peer, d.err
}

func runFencing(ctx context.Context, w *world) (observation, error) {
	state, err := w.topic(ctx, fencingState, map[string]string{"cleanup.policy": "compact"})
	if err != nil {
		return nil, err
	}
	m, err := w.join(ctx, fencingGroup, fencingInput)
	if err != nil {
		return nil, err
	}
	defer m.leave(ctx)
	f := Fencing{FirstProcess: os.Getpid(), Limit: fenceLimit, ID: fence.TransactionalID(m.group, state, 0)}
	s, err := startSecond(w.o.Rival, rivalSpec{ID: f.ID, Topic: state})
	if err != nil {
		return nil, err
	}
	err = f.fight(ctx, w, m, s, state)
	if err == nil {
		w.o.note("    the second process writes")
		_, err = s.order(ctx, orderWrite)
	}
	if err = errors.Join(err, s.stop()); err != nil {
		return nil, err
	}
	return f, f.afterwards(ctx, w, m, state)
}

// fight runs the first process's writer against the second process until it stops.
func (f *Fencing) fight(ctx context.Context, w *world, m *member, s *second, state string) error {
	d := &duel{ctx: ctx, second: s}
	k := w.o.Kafka
	k.Opts = append(append([]kgo.Opt{}, k.Opts...), kgo.WithHooks(d))
	var mu sync.Mutex
	var began time.Time
	c := fence.Config{
		Kafka: k, Group: m.group, Input: m.input, InputTopicID: m.id, InputPartitions: 1, Ownership: m.own,
		Progress: stream.Partition{Topic: state}, Features: fence.Features(w.features), Logger: w.o.Logger,
		Hooks: []stream.Hooks{{Refused: func(r stream.Refused) {
			mu.Lock()
			defer mu.Unlock()
			answer, _ := code(r.Err)
			f.Refusals = append(f.Refusals, Refusal{AfterMs: time.Since(began).Milliseconds(), Cause: r.Cause, Code: r.Code, Answer: answer, Final: r.Final})
		}}},
	}
	writer, _, err := fence.Open(ctx, c)
	if err != nil {
		return err
	}
	w.initialised(f.ID)
	defer closeWriter(ctx, writer)
	if err := writer.Commit(ctx, fence.Offset{Next: firstBefore, LeaderEpoch: -1}, eventMessage(firstEvent)); err != nil {
		return err
	}
	if f.Before, err = w.stable(ctx, m.group, m.input, m.id); err != nil {
		return err
	}
	w.o.note("    the first process (%d) writes; a second one initialises its id in each of its transactions", f.FirstProcess)
	mu.Lock()
	began = time.Now()
	mu.Unlock()
	if _, _, err := d.begin(true); err != nil {
		return err
	}
	// The writer waits for the outcome of what has begun, for minutes if no broker answers.
	cut := context.AfterFunc(ctx, func() { m.own.Lose(context.Cause(ctx)) })
	defer cut()
	ended := writer.Commit(ctx, fence.Offset{Next: firstRefused, LeaderEpoch: -1}, eventMessage(fencedEvent))
	f.TookMs = time.Since(began).Milliseconds()
	f.Inits, f.SecondProcess, err = d.begin(false)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	switch {
	case errors.Is(ended, stream.ErrIDTaken):
		f.StoppedAs = stream.ErrIDTaken.Error()
	case errors.Is(ended, stream.ErrOwnershipLost):
		f.StoppedAs = stream.ErrOwnershipLost.Error()
	}
	if ended != nil {
		f.Stopped = ended.Error()
	}
	return err
}

// closeWriter waits until the writer's clients are at rest. Its own transactions are over by then.
func closeWriter(ctx context.Context, writer *fence.Writer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepLimit)
	defer cancel()
	_ = writer.Close(ctx) // its one error is that the time was up
}

func eventMessage(id string) stream.Message {
	return stream.Message{Key: []byte("key"), Value: []byte("event " + id), Headers: []stream.Header{{Key: eventHeader, Value: []byte(id)}}}
}

func (f *Fencing) afterwards(ctx context.Context, w *world, m *member, state string) (err error) {
	if f.After, err = w.stable(ctx, m.group, m.input, m.id); err != nil {
		return err
	}
	records, err := w.read(ctx, state, true)
	for _, r := range records {
		switch event(r) {
		case fencedEvent:
			f.FirstVisible++
		case secondEvent:
			f.SecondVisible++
		}
	}
	return err
}

func (f Fencing) judge() (Verdict, string) {
	fenced := 0
	for _, r := range f.Refusals {
		if r.Cause == causeEpoch {
			fenced++
		}
	}
	switch {
	case f.SecondProcess == 0 || f.SecondProcess == f.FirstProcess || len(f.Inits) == 0:
		return NotShown, "no second process initialised the id"
	case f.Before != firstBefore:
		return NotShown, fmt.Sprintf("the first process could not write by itself: the committed offset is %d", f.Before)
	case f.FirstVisible > 0 || f.After != f.Before:
		return Refuted, fmt.Sprintf("a write of the first process became visible while its id was another's: %s, committed offset %d",
			count(f.FirstVisible, "record"), f.After)
	case f.Stopped == "":
		return Refuted, "the first process was told that its write is committed, although it is not"
	case fenced > f.Limit:
		return Refuted, fmt.Sprintf("the first process went on after %d refusals in a row; the limit is %d", fenced, f.Limit)
	case f.StoppedAs == "":
		return NotShown, "the first process stopped for another reason: " + f.Stopped
	case fenced == 0:
		return NotShown, "the broker refused no write of the first process"
	case f.SecondVisible != 1:
		return NotShown, fmt.Sprintf("the second process wrote one record, and a reader sees %d", f.SecondVisible)
	}
	return Proved, ""
}

// causeEpoch is how stream.Refused names a refusal by producer epoch.
const causeEpoch = "producer-epoch"

func (f Fencing) lines() []string {
	lines := []string{fmt.Sprintf("the first process (%d) wrote as %s and committed offset %d", f.FirstProcess, f.ID, f.Before)}
	for i, e := range f.Inits {
		line := fmt.Sprintf("the second process (%d) initialised the id: producer %d, epoch %d", f.SecondProcess, e.ProducerID, e.Epoch)
		if i < len(f.Refusals) {
			r := f.Refusals[i]
			line += fmt.Sprintf("; the first was refused, %s (%d), at %d ms", r.Answer, r.Code, r.AfterMs)
		}
		lines = append(lines, line)
	}
	stopped := "the first process did not stop"
	if f.Stopped != "" {
		stopped = fmt.Sprintf("the first process stopped by itself after %s and %d ms: %s", count(len(f.Refusals), "refusal"), f.TookMs,
			cmp.Or(f.StoppedAs, f.Stopped))
	}
	return append(lines, stopped,
		fmt.Sprintf("committed offset %d before and %d after; a read_committed reader sees %d of the first's refused records and %d of the second's one",
			f.Before, f.After, f.FirstVisible, f.SecondVisible))
}
