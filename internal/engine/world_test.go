package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// kind is what an event of the random test does to its key.
type kind int

const (
	add      kind = iota // always sets a state that depends on all before it
	drop                 // deletes some states, and brings an absent key to life
	touch                // changes a state, does nothing to an absent key
	filtered             // Route filters it
	poison               // fails always: the policy skips it
	flaky                // fails once, after it has changed the state
	kinds
)

type event struct {
	offset int64
	key    string
	kind   kind
}

// after is the state of a key after an event that was accepted. It is neither commutative nor
// idempotent: a record that is lost, repeated or out of order shows.
func (v event) after(n int64, has bool) (int64, bool) {
	switch {
	case v.kind == drop && has && n%2 == 0:
		return 0, false
	case v.kind == touch && !has:
		return 0, false
	case v.kind == touch:
		return n + 1, true
	}
	return (n*31+v.offset)%1_000_003 + 1, true
}

func (v event) accepted() bool { return v.kind != filtered && v.kind != poison }

// violation is what the random test found.
type violation struct{ name, detail string }

func (v violation) Error() string { return broke[v.name] + v.name + ": " + v.detail }

// broke has the invariants, as docs/testing.md names them, that a violation breaks.
var broke = map[string]string{
	"holds": "I1: ", "durable": "I1 I2: ", "memory": "I2: ", "outputs": "I4: ", "bytes": "I5: ", "committed": "committed-rises: ",
}

func broken(name, format string, args ...any) error {
	return violation{name, fmt.Sprintf(format, args...)}
}

// world is an engine, its broker and its input, with the naive truth about them: it keeps no state
// but folds the input from the start each time it is asked.
type world struct {
	rng      *rand.Rand
	cfg      Config[int64]
	e        *Engine[int64]
	now      time.Time
	input    []event
	at       int // index of the next event
	tries    map[int64]int
	log      []Write // committed snapshots
	outputs  []int64 // offsets of the records whose outputs are committed, with whole batches
	durable  int64   // committed offset as the broker has it
	batch    *Batch
	print    string // of the batch as it was closed
	badCodec bool   // the codec fails now and then
	retained int    // how often the engine was kept
	bound    int64  // of batches, that was learned
	slowed   [3]int // how often a batch ran out of time, by how it came again
}

func newWorld(seed uint64, change func(*Config[int64])) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{rng: rng, now: epoch0, tries: map[int64]int{}, durable: 10, badCodec: true}
	offset := w.durable
	for range 60 {
		w.input = append(w.input, event{offset, string(rune('a' + rng.IntN(4))), kind(rng.IntN(int(kinds)))})
		offset += 1 + rng.Int64N(3)
	}
	w.cfg = Config[int64]{
		Plain:  true,
		Fold:   w.fold,
		Route:  func(r stream.Record) ([]byte, bool) { return r.Key, w.event(r).kind != filtered },
		Decode: decode,
		Encode: w.encode,
		Settings: Settings{
			Partition:       stream.Partition{Topic: "in"},
			Outputs:         map[string]int{"out": 0},
			PersistInterval: time.Duration(rng.IntN(20)) * time.Second,
			PersistCooldown: time.Duration(rng.IntN(3)) * time.Second,
			CommitInterval:  time.Duration(rng.IntN(6)) * time.Second,
			MaxWrites:       rng.IntN(4),
			MaxBytes:        rng.Int64N(2) * 400,
			KeepDirty:       rng.IntN(2) == 0,
		},
	}
	change(&w.cfg)
	w.e = New(w.cfg)
	w.e.Start(w.now, w.durable, w.durable, nil)
	return w
}

func (w *world) event(r stream.Record) event {
	i, _ := strconv.Atoi(string(r.Value))
	return w.input[i]
}

func (w *world) record(i int) stream.Record {
	return rec(w.input[i].offset, w.input[i].key, strconv.Itoa(i))
}

func (w *world) fold(_ context.Context, c *Call[int64], r stream.Record) error {
	v := w.event(r)
	n, has := c.State()
	if n, has = v.after(n, has); has {
		c.Set(n)
	} else {
		c.Delete()
	}
	c.Emit(stream.Message{Topic: "out"})
	if w.rng.IntN(6) == 0 {
		c.Persist()
	}
	w.tries[v.offset]++
	if v.kind == poison || v.kind == flaky && w.tries[v.offset]%2 == 1 {
		if w.rng.IntN(2) == 0 {
			panic("poison")
		}
		return errors.New("poison")
	}
	return nil
}

func (w *world) encode(dst []byte, n int64) ([]byte, error) {
	if w.cfg.KeepDirty && w.badCodec && w.rng.IntN(8) == 0 {
		return nil, errors.New("codec")
	}
	return strconv.AppendInt(dst, n, 10), nil
}

// run lets n random things happen and checks after each, then drains and checks the end.
func (w *world) run(n int) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case Invariant:
			err = fmt.Errorf("%s: %w", p.Name, p)
		default:
			panic(p)
		}
	}()
	for range n {
		if err := w.happen(); err != nil {
			return err
		}
		if err := w.checkMemory(); err != nil {
			return err
		}
	}
	return w.finish()
}

func (w *world) happen() error {
	switch p := w.rng.IntN(100); {
	case p < 50 && w.at < len(w.input) && !w.e.Full():
		return w.step()
	case p < 65:
		w.now = w.now.Add(time.Duration(w.rng.IntN(10_000)) * time.Millisecond)
	case p < 80 && w.batch == nil:
		return w.close(w.rng.IntN(5) == 0)
	case p < 95 && w.batch != nil:
		return w.outcome()
	case p >= 97:
		return w.crash()
	case p >= 95:
		return w.revoke()
	}
	return nil
}

func (w *world) step() error {
	r := w.record(w.at)
	res := w.e.Step(context.Background(), w.now, r)
	if want := map[bool]int{true: 1}[res.Outcome == Folded && !w.cfg.Whole]; len(res.Outputs) != want {
		return broken("outputs", "%v at %d has %d outputs", res.Outcome, r.Offset, len(res.Outputs))
	}
	switch {
	case res.Outcome == Dropped:
		return broken("dropped", "%d, next %d", r.Offset, w.e.Next())
	case res.Outcome == Failed && w.event(r).kind == poison && w.cfg.Whole:
		w.e.DeadLetter(r, stream.Message{Topic: "dead"})
	case res.Outcome == Failed && w.event(r).kind == poison:
		w.e.Skip(r)
	case res.Outcome == Failed:
		return nil // flaky: the next step tries again
	}
	if w.e.Next() != r.Offset+1 {
		return broken("next", "got %d after %d", w.e.Next(), r.Offset)
	}
	w.at++
	return w.readOn()
}

func (w *world) close(drain bool) error {
	at, ok := w.e.Due()
	b, err := w.e.Close(w.now, drain)
	if err != nil {
		return err
	}
	if due := ok && !at.After(w.now); !drain && (due != (b != nil)) && (b != nil || !w.cfg.KeepDirty) {
		return broken("due", "due %v %v, now %v, batch %+v", ok, at, w.now, b)
	}
	w.batch, w.print = b, fmt.Sprintf("%+v", b)
	if b == nil {
		return nil
	}
	if w.cfg.Whole {
		if b.Next != w.e.Next() && (w.bound == 0 || len(b.Writes) > 0) {
			return broken("whole", "batch at %d, folded up to %d", b.Next, w.e.Next())
		}
		return nil
	}
	if m := w.cfg.MaxWrites; m > 0 && len(b.Writes) > m {
		return broken("bounds", "%d writes", len(b.Writes))
	}
	if m := w.cfg.MaxBytes; m > 0 && len(b.Writes) > 1 && b.Bytes > m {
		return broken("bounds", "%d bytes", b.Bytes)
	}
	if want := w.leastHold(b); !w.cfg.NoHolds && b.Next != want {
		return broken("holds", "batch at %d, by scan %d", b.Next, want)
	}
	return nil
}

func (w *world) outcome() error {
	if got := fmt.Sprintf("%+v", w.batch); got != w.print {
		return broken("bytes", "a batch in flight changed: %s, was %s", got, w.print)
	}
	b := w.batch
	switch p := w.rng.IntN(100); {
	case p < 60:
		w.batch = nil
		w.e.Committed(w.now, b)
		return w.commit(b)
	case p < 70:
		return w.slow(b)
	case p >= 85 && w.cfg.Whole && len(b.Outputs)+len(b.Writes) > 0:
		return w.reject(b)
	case p < 85 || len(b.Writes) == 0 || !w.cfg.KeepDirty:
		w.batch = nil
		w.e.Aborted(w.now, b)
	default:
		rest, err := w.e.Refused(w.now, b, w.rng.IntN(len(b.Writes)), errStub)
		if err != nil {
			return err
		}
		w.batch, w.print = rest, fmt.Sprintf("%+v", rest)
		if rest != nil && rest.Next > min(b.Next, w.leastHold(rest)) && !w.cfg.NoHolds {
			return broken("holds", "the rest of a refused batch at %d", rest.Next)
		}
	}
	return nil
}

// commit is the broker's part.
func (w *world) commit(b *Batch) error {
	if b.Next < w.durable {
		return broken("committed", "%d, was %d", b.Next, w.durable)
	}
	w.log = append(w.log, b.Writes...)
	w.durable = b.Next
	for _, o := range b.Outputs {
		w.outputs = append(w.outputs, o.Offset)
	}
	if err := w.checkOutputs(); err != nil {
		return err
	}
	return w.checkDurable()
}

// reject has the broker refuse one record of a whole batch: the record it came from is named, and the
// memory is dropped.
func (w *world) reject(b *Batch) error {
	i := w.rng.IntN(len(b.Outputs) + len(b.Writes))
	_, err := w.e.Refused(w.now, b, i, errStub)
	var r *Rejected
	if !errors.As(err, &r) || !errors.Is(err, errStub) || r.Offset < w.durable || r.Offset >= b.Next {
		return broken("rejected", "record %d of a batch from %d to %d: %v", i, w.durable, b.Next, err)
	}
	w.batch = nil
	return w.crash()
}

// checkOutputs: with whole batches exactly the records before the committed offset have their output,
// in order, and those that failed their letter.
func (w *world) checkOutputs() error {
	if !w.cfg.Whole {
		return nil
	}
	var want []int64
	for _, v := range w.input {
		if v.kind != filtered && v.offset < w.durable {
			want = append(want, v.offset)
		}
	}
	if !slices.Equal(w.outputs, want) {
		return broken("outputs", "up to %d: %v, want %v", w.durable, w.outputs, want)
	}
	return nil
}

// crash loses the memory. A batch in flight was committed or not, nobody knows. The log may have
// been compacted, and the first fetch may bring a record from below the start.
func (w *world) crash() error {
	if w.batch != nil && w.rng.IntN(2) == 0 {
		if err := w.commit(w.batch); err != nil {
			return err
		}
	}
	w.batch = nil
	w.e = New(w.cfg)
	last := map[string]int{}
	for i, s := range w.log {
		last[string(s.Key)] = i
	}
	compacted := w.rng.IntN(2) == 0
	for i, s := range w.log {
		if compacted && (i < last[string(s.Key)] || s.Tombstone) {
			continue
		}
		if err := w.e.Load(snapshot(s)); err != nil {
			return err
		}
	}
	var skip map[int64]bool
	if w.rng.IntN(2) == 0 && !w.cfg.Whole { // a letter that was not committed is written again
		skip = map[int64]bool{}
		for _, v := range w.input[:w.at] {
			skip[v.offset] = v.kind == poison
		}
	}
	w.e.Start(w.now, w.durable, w.durable, skip)
	for w.at = 0; w.at < len(w.input) && w.input[w.at].offset < w.durable; w.at++ {
		if res := w.e.Step(context.Background(), w.now, w.record(w.at)); res.Outcome != Dropped {
			return broken("dropped", "%d below %d was %v", w.input[w.at].offset, w.durable, res.Outcome)
		}
	}
	return nil
}

// truth folds a key's accepted events in [from, to) onto a state.
func (w *world) truth(key string, n int64, has bool, from, to int64) (int64, bool) {
	for _, v := range w.input {
		if v.key == key && v.accepted() && v.offset >= from && v.offset < to {
			n, has = v.after(n, has)
		}
	}
	return n, has
}

var worldKeys = []string{"a", "b", "c", "d"}

// checkMemory: what the engine has for a key is the fold of the input up to its applied offset.
func (w *world) checkMemory() error {
	for _, key := range worldKeys {
		v, _ := w.e.Get([]byte(key))
		to := max(w.e.Next(), v.Applied+1)
		n, has := w.truth(key, 0, false, 0, to)
		if n != v.State || has != v.Has {
			return broken("memory", "key %s up to %d: %d %v, want %d %v", key, to, v.State, v.Has, n, has)
		}
	}
	return nil
}

// newest returns a key's newest committed snapshot.
func (w *world) newest(key string) (s Write, ok bool) {
	for _, l := range w.log {
		if string(l.Key) == key {
			s, ok = l, true
		}
	}
	return s, ok
}

// checkDurable: the committed snapshots, and a replay from the committed offset that skips what a
// snapshot contains, give the fold of the whole input. Nothing is lost and nothing repeated.
func (w *world) checkDurable() error {
	end := w.input[len(w.input)-1].offset + 1
	for _, key := range worldKeys {
		from := w.durable
		var n int64
		var has bool
		if s, ok := w.newest(key); ok && !s.Tombstone {
			if has = !s.Deleted; has {
				n, _ = decode(s.Value)
			}
			if !w.cfg.NoAppliedSkip {
				from = max(from, s.Applied+1)
			}
		}
		got, gotHas := w.truth(key, n, has, from, end)
		want, wantHas := w.truth(key, 0, false, 0, end)
		if got != want || gotHas != wantHas {
			return broken("durable", "key %s recovered at %d: %d %v, want %d %v", key, w.durable, got, gotHas, want, wantHas)
		}
	}
	return nil
}

// leastHold scans for the first event that changed or kept a state and is in no snapshot, neither a
// committed one nor one of b.
func (w *world) leastHold(b *Batch) int64 {
	least := w.e.Next()
	for _, key := range worldKeys {
		persisted := int64(-1)
		if s, ok := w.newest(key); ok {
			persisted = s.Applied
		}
		for _, s := range b.Writes {
			if string(s.Key) == key {
				persisted = s.Applied
			}
		}
		for _, v := range w.input {
			if v.key != key || !v.accepted() || v.offset <= persisted || v.offset >= least {
				continue
			}
			_, before := w.truth(key, 0, false, 0, v.offset)
			if _, after := w.truth(key, 0, false, 0, v.offset+1); before || after {
				least = v.offset
			}
		}
	}
	return least
}

// finish folds what is left and drains until nothing is to be done.
func (w *world) finish() error {
	w.badCodec = false
	for w.at < len(w.input) {
		if err := w.step(); err != nil {
			return err
		}
	}
	for rounds := 0; ; rounds++ {
		if b := w.batch; b != nil {
			w.batch = nil
			w.e.Committed(w.now, b)
			if err := w.commit(b); err != nil {
				return err
			}
		}
		if _, ok := w.e.Due(); !ok {
			break
		}
		if rounds > 1000 {
			return broken("end", "never done: %+v", w.e.Stats())
		}
		w.now = w.now.Add(time.Minute)
		if err := w.close(rounds < 5); err != nil {
			return err
		}
	}
	s := w.e.Stats()
	if s.Dirty+s.Holds+s.InFlight+s.Deleted != 0 || w.e.CommittedOffset() != w.e.Next() {
		return broken("end", "committed %d, next %d, %+v", w.e.CommittedOffset(), w.e.Next(), s)
	}
	for _, key := range worldKeys {
		_, known := w.e.Get([]byte(key))
		s, ok := w.newest(key)
		if known != (ok && !s.Tombstone) {
			return broken("end", "key %s: known %v, snapshot %+v", key, known, s)
		}
	}
	return w.checkMemory()
}
