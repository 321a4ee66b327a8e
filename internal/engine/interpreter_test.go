package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// interpreter carries out the commands of a transcript. It plays broker too: writes of committed
// batches go to a log, from which "crash" restores.
type interpreter struct {
	t     *testing.T
	cfg   Config[int64]
	e     *Engine[int64]
	batch *Batch
	start time.Time
	now   time.Time
	log   []Write
	kept  *Call[int64] // a handle that a fold kept
}

var errStub = errors.New("refused by the broker")

func newInterpreter(t *testing.T) *interpreter {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &interpreter{t: t, start: at, now: at}
}

// command returns the answer to one command.
func (in *interpreter) command(args []string) string {
	switch name, args := args[0], args[1:]; name {
	case "new":
		return in.create(args)
	case "load":
		return in.load(args)
	case "incarnation":
		in.e.RaiseIncarnation(uint32(in.int(args[0])))
		return "ok"
	case "start":
		return in.begin(args)
	case "step":
		return in.step(args)
	case "map":
		ms := []stream.Message{}
		for _, topic := range args[1:] {
			ms = append(ms, stream.Message{Topic: topic, Value: []byte(args[0])})
		}
		return in.stepped(in.e.Mapped(in.record(args[0], "", nil), ms, nil))
	case "dead-letter":
		in.e.DeadLetter(in.record(args[0], "", nil), stream.Message{Topic: "dead", Value: []byte(args[0])})
		return fmt.Sprintf("next %d", in.e.Next())
	case "full":
		return strconv.FormatBool(in.e.Full())
	case "skip":
		in.e.Skip(in.record(args[0], "", nil))
		return fmt.Sprintf("next %d", in.e.Next())
	case "read":
		offset, epoch, _ := strings.Cut(args[0], "@")
		in.e.Read(in.int(offset), int32(in.int(epoch)))
		return fmt.Sprintf("next %d", in.e.Next())
	case "advance":
		d, err := time.ParseDuration(args[0])
		in.check(err)
		in.now = in.now.Add(d)
		return fmt.Sprintf("it is %s", in.now.Sub(in.start))
	case "due":
		at, ok := in.e.Due()
		if !ok {
			return "nothing to wait for"
		}
		return fmt.Sprintf("due at %s", at.Sub(in.start))
	case "close":
		b, err := in.e.Close(in.now, slices.Contains(args, "drain"))
		return in.closed(b, err)
	case "commit":
		in.e.Committed(in.now, in.batch)
		in.log = append(in.log, in.batch.Writes...)
		return fmt.Sprintf("committed %d", in.e.CommittedOffset())
	case "abort":
		in.e.Aborted(in.now, in.batch)
		return fmt.Sprintf("committed %d", in.e.CommittedOffset())
	case "refuse":
		b, err := in.e.Refused(in.now, in.batch, int(in.int(args[0])), errStub)
		return in.closed(b, err)
	case "crash":
		return in.crash(args)
	case "stats":
		return strings.Trim(fmt.Sprintf("%+v", in.e.Stats()), "{}")
	case "get":
		return in.get(args[0])
	case "late":
		_, _ = in.kept.State()
		return "no panic"
	}
	in.t.Fatalf("no such command: %q", args)
	return ""
}

// run adds the line end and answers a broken invariant with its name.
func (in *interpreter) run(args []string) (out string) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case Invariant:
			out = v.Error() + "\n"
		case string:
			out = "panic: " + v + "\n"
		default:
			panic(v)
		}
	}()
	return in.command(args) + "\n"
}

func (in *interpreter) create(args []string) string {
	in.cfg = Config[int64]{
		Fold: in.fold, Route: route, Encode: encode, Decode: decode, Plain: true,
		Settings: Settings{
			Partition: stream.Partition{Topic: "in", Partition: 0}, Outputs: map[string]int{"out": 0, "small": 100},
			PersistInterval: 30 * time.Second, PersistCooldown: time.Second, CommitInterval: 5 * time.Second,
		},
	}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		var err error
		switch name {
		case "persist":
			in.cfg.PersistInterval, err = time.ParseDuration(value)
		case "cooldown":
			in.cfg.PersistCooldown, err = time.ParseDuration(value)
		case "commit":
			in.cfg.CommitInterval, err = time.ParseDuration(value)
		case "max-writes":
			in.cfg.MaxWrites = int(in.int(value))
		case "max-bytes":
			in.cfg.MaxBytes = in.int(value)
		case "max-record":
			in.cfg.MaxRecordBytes = int(in.int(value))
		case "keep-dirty":
			in.cfg.KeepDirty = true
		case "whole":
			in.cfg.Whole = true
		case "no-applied-skip":
			in.cfg.NoAppliedSkip = true
		case "no-holds":
			in.cfg.NoHolds = true
		case "no-two-write-delete":
			in.cfg.NoTwoWriteDelete = true
		default:
			err = fmt.Errorf("no such option: %q", arg)
		}
		in.check(err)
	}
	in.e, in.batch, in.log = New(in.cfg), nil, nil
	return "ok"
}

// fold does what the words of the value say.
func (in *interpreter) fold(_ context.Context, c *Call[int64], r stream.Record) error {
	for word := range strings.FieldsSeq(string(r.Value)) {
		name, value, _ := strings.Cut(word, ":")
		switch name {
		case "set":
			c.Set(in.int(value))
		case "add":
			n, _ := c.State()
			c.Set(n + in.int(value))
		case "countdown":
			if n, _ := c.State(); n == 1 {
				c.Delete()
			} else {
				c.Set(n - 1)
			}
		case "delete":
			c.Delete()
		case "emit":
			n, _ := c.State()
			c.Emit(stream.Message{Topic: value, Key: c.Bytes(), Value: strconv.AppendInt(nil, n, 10)})
		case "persist":
			c.Persist()
		case "read":
			c.State()
		case "keep":
			in.kept = c
		case "fail":
			return errors.New(value)
		case "panic":
			panic(value)
		default:
			return fmt.Errorf("no such word: %q", word)
		}
	}
	return nil
}

func route(r stream.Record) ([]byte, bool) {
	if string(r.Key) == "panics" {
		panic("route")
	}
	return r.Key, string(r.Key) != "filtered"
}

// encode refuses negative numbers.
func encode(dst []byte, n int64) ([]byte, error) {
	if n < 0 {
		return nil, errors.New("negative")
	}
	return strconv.AppendInt(dst, n, 10), nil
}

func decode(src []byte) (int64, error) {
	if len(src) == 0 {
		panic("empty")
	}
	return strconv.ParseInt(string(src), 10, 64)
}

func (in *interpreter) load(args []string) string {
	s := Snapshot{Key: []byte(args[0])}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "value":
			s.Value = []byte(value)
		case "applied":
			s.Applied = in.int(value)
		case "steps":
			s.Steps = uint64(in.int(value))
		case "incarnation":
			s.Incarnation = uint32(in.int(value))
		case "deleted":
			s.Deleted = true
		case "no-state":
			s.NoState = true
		case "tombstone":
			s.Tombstone = true
		default:
			in.t.Fatalf("no such field: %q", arg)
		}
	}
	if err := in.e.Load(s); err != nil {
		return failure(err)
	}
	return "ok"
}

func (in *interpreter) begin(args []string) string {
	skip := map[int64]bool{}
	for _, arg := range args[2:] {
		skip[in.int(arg)] = true
	}
	in.e.Start(in.now, in.int(args[0]), in.int(args[1]), skip)
	return fmt.Sprintf("next %d", in.e.Next())
}

// record makes a record at "offset" or "offset@leader epoch"; key "-" is no key.
func (in *interpreter) record(at, key string, words []string) stream.Record {
	offset, epoch, ok := strings.Cut(at, "@")
	r := stream.Record{Topic: "in", Offset: in.int(offset), Value: []byte(strings.Join(words, " "))}
	if ok {
		r.LeaderEpoch = int32(in.int(epoch))
	}
	if key != "-" {
		r.Key = []byte(key)
	}
	return r
}

func (in *interpreter) step(args []string) string {
	return in.stepped(in.e.Step(context.Background(), in.now, in.record(args[0], args[1], args[2:])))
}

func (in *interpreter) stepped(res Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, next %d", res.Outcome, in.e.Next())
	for _, m := range res.Outputs {
		fmt.Fprintf(&b, "\n  %s: %s = %s", m.Topic, m.Key, m.Value)
	}
	if f := res.Failure; f != nil {
		fmt.Fprintf(&b, "\n  %s", failure(f))
	}
	return b.String()
}

func (in *interpreter) closed(b *Batch, err error) string {
	in.batch = b
	switch {
	case err != nil:
		return failure(err)
	case b == nil:
		return "nothing to commit"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "batch: next %d, epoch %d, %d bytes", b.Next, b.LeaderEpoch, b.Bytes)
	if b.Full {
		out.WriteString(", full")
	}
	for _, o := range b.Outputs {
		fmt.Fprintf(&out, "\n  from %d to %s: %s = %s", o.Offset, o.Message.Topic, o.Message.Key, o.Message.Value)
	}
	for _, w := range b.Writes {
		fmt.Fprintf(&out, "\n  %s = %s", w.Key, wrote(w))
	}
	return out.String()
}

func wrote(w Write) string {
	switch {
	case w.Tombstone:
		return "tombstone"
	case w.Deleted:
		return fmt.Sprintf("deleted at %d, step %d", w.Applied, w.Steps)
	case w.NoState:
		return fmt.Sprintf("no state at %d, step %d", w.Applied, w.Steps)
	}
	return fmt.Sprintf("%s at %d, step %d", w.Value, w.Applied, w.Steps)
}

// crash restores from the log and starts at the committed offset, or at the one given.
func (in *interpreter) crash(args []string) string {
	committed := in.e.CommittedOffset()
	in.e, in.batch = New(in.cfg), nil
	for _, w := range in.log {
		in.check(in.e.Load(snapshot(w)))
	}
	next := committed
	if len(args) > 0 {
		next = in.int(args[0])
	}
	in.e.Start(in.now, next, committed, nil)
	return fmt.Sprintf("next %d, %d keys, %d deleted", in.e.Next(), in.e.Stats().Keys, in.e.Stats().Deleted)
}

func snapshot(w Write) Snapshot {
	return Snapshot{
		Key: w.Key, Value: w.Value, Applied: w.Applied, Steps: w.Steps,
		Deleted: w.Deleted, NoState: w.NoState, Tombstone: w.Tombstone,
	}
}

func (in *interpreter) get(key string) string {
	v, ok := in.e.Get([]byte(key))
	switch {
	case !ok:
		return "unknown"
	case v.Deleted:
		return fmt.Sprintf("deleted at %d, persisted %d, step %d", v.Applied, v.Persisted, v.Steps)
	case !v.Has:
		return fmt.Sprintf("no state at %d, persisted %d, step %d", v.Applied, v.Persisted, v.Steps)
	}
	return fmt.Sprintf("%d at %d, persisted %d, step %d", v.State, v.Applied, v.Persisted, v.Steps)
}

// failure returns the first line of an error: what follows is a stack.
func failure(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (in *interpreter) int(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	in.check(err)
	return n
}

func (in *interpreter) check(err error) {
	if err != nil {
		in.t.Helper()
		in.t.Fatal(err)
	}
}
