package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// fakeLog is a log in virtual time: its read goes on as far as `stable` allows and polls after that.
type fakeLog struct {
	mu       sync.Mutex
	start    int64
	end      int64 // high watermark
	stable   int64 // last stable offset
	records  []*kgo.Record
	every    time.Duration // waited before each record
	endsErr  error         // what Ends answers from the second call on
	endsHang bool          // Ends never answers
	readErr  error         // what the read retries for ever
	openOn   bool
	openErr  error
	holders  []wire.Holder
	holdErr  error

	ends  int
	opens int
	reads []wire.ReadOptions
}

func (f *fakeLog) At() stream.Partition { return stream.Partition{Topic: "orders-state", Partition: 3} }

func (f *fakeLog) Ends(ctx context.Context) (int64, int64, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends++
	if f.endsHang {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return 0, 0, 0, context.Cause(ctx)
	}
	if f.ends > 1 && f.endsErr != nil {
		return 0, 0, 0, f.endsErr
	}
	return f.start, f.end, f.stable, nil
}

func (f *fakeLog) set(change func(*fakeLog)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeLog) limit() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stable
}

func (f *fakeLog) Read(ctx context.Context, o wire.ReadOptions, each func(*kgo.Record) error) (int64, error) {
	f.mu.Lock()
	f.reads = append(f.reads, o)
	f.mu.Unlock()
	position := o.From
	for position < o.To {
		if f.readErr != nil {
			o.OnRetry(f.readErr)
		}
		if position >= f.limit() || f.readErr != nil {
			if !sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) {
				return position, context.Cause(ctx)
			}
			continue
		}
		if f.every > 0 && !sleepUntil(ctx, time.Now().Add(f.every)) {
			return position, context.Cause(ctx)
		}
		for _, r := range f.records {
			if r.Offset == position {
				if err := each(r); err != nil {
					return position, err
				}
			}
		}
		position++
		o.OnPosition(position)
	}
	return position, nil
}

func (f *fakeLog) OpenOn(context.Context, string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opens++
	return f.openOn, f.openErr
}

func (f *fakeLog) Holders(context.Context) ([]wire.Holder, error) { return f.holders, f.holdErr }
func (f *fakeLog) AbortCommand(h wire.Holder) string {
	return fmt.Sprintf("kafka-transactions.sh abort --start-offset %d", h.FirstOffset)
}
func (f *fakeLog) DescribeCommand() string { return "kafka-topics.sh --describe" }

func put(offset int64, key, value string) *kgo.Record {
	r := &kgo.Record{Offset: offset, Value: []byte(value)}
	if key != "" {
		r.Key = []byte(key)
	}
	if value == "" {
		r.Value = nil
	}
	return r
}

// logLines collects a logger's lines with the virtual time since its start.
type logLines struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func newLog() (*logLines, *slog.Logger) {
	l := &logLines{began: time.Now()}
	return l, slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%v %s", time.Since(l.began), bytes.TrimSpace(b)))
	return len(b), nil
}

func (l *logLines) with(words string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, words) {
			found = append(found, line)
		}
	}
	return found
}

var _ io.Writer = (*logLines)(nil)

func fold(into map[string]string) func(stream.Record) error {
	return func(r stream.Record) error {
		if r.Value == nil {
			delete(into, string(r.Key))
		} else {
			into[string(r.Key)] = string(r.Value)
		}
		return nil
	}
}

// The numbers are those of kafka-flow's ReadSnapshotsSpec.

func TestRestore1DrainsToTheHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 5, stable: 1, records: []*kgo.Record{
			put(0, "a", "1"), put(1, "b", "1"), put(2, "", "keyless"), put(3, "a", ""), put(4, "b", "2")}}
		time.AfterFunc(time.Second, func() { f.set(func(f *fakeLog) { f.stable = 5 }) })
		got := map[string]string{}
		res, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(got)})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got["b"] != "2" {
			t.Errorf("I2: state %v, want only b=2", got)
		}
		if res.Target != 5 || res.Position != 5 || res.Records != 4 || res.Keyless != 1 || res.Bytes != 7 || res.Took > 1100*time.Millisecond {
			t.Errorf("result %+v", res)
		}
		if len(f.reads) != 1 || !f.reads[0].Committed {
			t.Errorf("I5: reads %+v, want one that is read_committed", f.reads)
		}
	})
}

func TestRestoreEndsAtTheLastStableOffsetWithoutTheRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 5, stable: 1, records: []*kgo.Record{put(0, "a", "1"), put(4, "a", "2")}}
		got := map[string]string{}
		if _, err := Restore(rule.Without(t.Context(), rule.RestoreBound), RestoreConfig{source: f, Each: fold(got)}); err != nil {
			t.Fatal(err)
		}
		if got["a"] != "1" {
			t.Errorf("state %v: the sabotage is meant to miss the record above the open transaction", got)
		}
	})
}

// Public case D2.
func TestRestore2StallNamesTheOpenTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 3, stable: 1, records: []*kgo.Record{put(0, "a", "1")}, holders: []wire.Holder{
			{ProducerID: 7, ProducerEpoch: 2, FirstOffset: 1, TransactionalID: "etl", State: "Ongoing", CurrentEpoch: 2,
				Started: time.Now().Add(-time.Minute), Timeout: 15 * time.Minute}, {ProducerID: 8, FirstOffset: 2}}}
		var told []stream.Stalled
		_, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(map[string]string{}), StallTimeout: 4 * time.Second,
			Stalled: func(s stream.Stalled) { told = append(told, s) }})
		if !errors.Is(err, stream.ErrRestoreStalled) || errors.Is(err, stream.ErrTruncated) {
			t.Fatalf("got %v, want a stall that is not a truncation", err)
		}
		for _, want := range []string{"orders-state/3 offset 1", "at offset 1 of 3", `transactional id "etl"`, "producer id 7", "epoch 2",
			"open since", "timeout 15m0s", "1 more", "abort --start-offset 1"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing in %q", want, err)
			}
		}
		if len(told) != 1 || !told[0].Final || told[0].For != 4*time.Second || told[0].Diagnosis == "" {
			t.Errorf("hook was told %+v", told)
		}
	})
}

// Public case D2.
func TestRestore3RegressedEndIsTruncation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 9, stable: 1}
		time.AfterFunc(time.Second, func() { f.set(func(f *fakeLog) { f.end = 6 }) })
		_, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(map[string]string{}), StallTimeout: 4 * time.Second})
		if !errors.Is(err, stream.ErrRestoreStalled) || !errors.Is(err, stream.ErrTruncated) {
			t.Fatalf("got %v, want a stall that is a truncation", err)
		}
		for _, want := range []string{"ends at 6", "3 offsets below", "ebuild"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing in %q", want, err)
			}
		}
	})
}

func TestRestore4ProgressOutlivesTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 8, stable: 8, every: 90 * time.Millisecond}
		res, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(map[string]string{}), StallTimeout: 300 * time.Millisecond})
		if err != nil || res.Took != 720*time.Millisecond {
			t.Fatalf("took %v: %v", res.Took, err)
		}
	})
}

func TestRestore5FailingDiagnosisIsStillAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 3, stable: 1, endsErr: errors.New("broker is down"), readErr: errors.New("connection refused")}
		_, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(map[string]string{}), StallTimeout: time.Second})
		if !errors.Is(err, stream.ErrRestoreStalled) {
			t.Fatalf("got %v, want a stall", err)
		}
		for _, want := range []string{"undetermined", "broker is down", "connection refused"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing in %q", want, err)
			}
		}
	})
}

func TestRestore6ProgressLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 3, stable: 0}
		lines, logger := newLog()
		_, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(map[string]string{}), StallTimeout: 12 * time.Second, Logger: logger})
		if !errors.Is(err, stream.ErrRestoreStalled) {
			t.Fatalf("got %v, want a stall", err)
		}
		got := lines.with("makes no progress")
		if len(got) != 2 || !strings.HasPrefix(got[0], "5s ") || !strings.HasPrefix(got[1], "10s ") {
			t.Errorf("lines %q, want two, after exactly 5 s and 10 s", got)
		}
	})
}

func TestRestore7OneWarningWhenItWillWait(t *testing.T) {
	for name, tc := range map[string]struct {
		stable int64
		want   int
	}{"last stable offset below": {1, 1}, "equal": {3, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeLog{end: 3, stable: tc.stable}
				time.AfterFunc(20*time.Second, func() { f.set(func(f *fakeLog) { f.stable = 3 }) })
				lines, logger := newLog()
				if _, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(map[string]string{}), Logger: logger}); err != nil {
					t.Fatal(err)
				}
				if got := lines.with("level=WARN"); len(got) != tc.want {
					t.Errorf("warnings %q, want %d", got, tc.want)
				}
			})
		})
	}
}

func TestRestore8WithoutATimeoutItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 3, stable: 1}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		res, err := Restore(ctx, RestoreConfig{source: f, Each: fold(map[string]string{}), StallTimeout: -1})
		if !errors.Is(err, context.DeadlineExceeded) || res.Took != time.Hour {
			t.Fatalf("took %v: %v, want the context's end after an hour", res.Took, err)
		}
		if f.ends != 1 || len(f.reads) != 1 {
			t.Errorf("%d ends, %d reads, want one of each", f.ends, len(f.reads))
		}
	})
}

// Public case D3.
func TestRestoreEmptyLogReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{start: 4, end: 4, stable: 4}
		res, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(map[string]string{})})
		if err != nil || res.Position != 4 || res.Took != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

func TestRestoreOfAnUnreachableLogIsAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res, err := Restore(t.Context(), RestoreConfig{source: &fakeLog{endsHang: true}, Each: fold(map[string]string{})})
		if !errors.Is(err, stream.ErrRestoreStalled) || res.Took != DefaultStallTimeout {
			t.Fatalf("took %v: %v, want a stall after the default timeout", res.Took, err)
		}
	})
}

func TestRestoreRetakesItsOwnID(t *testing.T) {
	for name, tc := range map[string]struct {
		open    bool
		openErr error
		frees   bool            // taking over ends the transaction
		want    []time.Duration // when it retakes
	}{
		"open on our id":  {true, nil, false, []time.Duration{2 * time.Second, 6 * time.Second, 14 * time.Second}},
		"not on our id":   {false, nil, false, nil},
		"cannot be known": {false, errors.New("no such request"), false, []time.Duration{2 * time.Second, 6 * time.Second, 14 * time.Second}},
		"freed by it":     {true, nil, true, []time.Duration{2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeLog{end: 3, stable: 1, openOn: tc.open, openErr: tc.openErr}
				began := time.Now()
				var got []time.Duration
				_, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(map[string]string{}), TransactionalID: "us", StallTimeout: 20 * time.Second,
					Retake: func(context.Context) error {
						got = append(got, time.Since(began).Round(100*time.Millisecond))
						if tc.frees {
							f.set(func(f *fakeLog) { f.stable = 3 })
						}
						return nil
					}})
				if stalled := errors.Is(err, stream.ErrRestoreStalled); stalled == tc.frees {
					t.Errorf("got %v", err)
				}
				if fmt.Sprint(got) != fmt.Sprint(tc.want) {
					t.Errorf("retaken after %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestRestoreErrorsComeBackAsTheyAre(t *testing.T) {
	lost := errors.New("lost")
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 3, stable: 1, openOn: true}
		if _, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(map[string]string{}), TransactionalID: "us",
			Retake: func(context.Context) error { return lost }}); err != lost {
			t.Errorf("retake: got %v", err)
		}
		f = &fakeLog{end: 3, stable: 3, records: []*kgo.Record{put(1, "k", "v")}}
		if _, err := Restore(t.Context(), RestoreConfig{source: f, Each: func(stream.Record) error { return lost }}); err != lost {
			t.Errorf("each: got %v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(lost) })
		f = &fakeLog{end: 3, stable: 1}
		if _, err := Restore(ctx, RestoreConfig{source: f, Each: fold(map[string]string{})}); err != lost {
			t.Errorf("context: got %v", err)
		}
	})
}

func TestRestoreDoesNotCallASlowTakerAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 2, stable: 2, every: time.Millisecond, records: []*kgo.Record{put(0, "a", "1"), put(1, "b", "1")}}
		_, err := Restore(t.Context(), RestoreConfig{source: f, StallTimeout: time.Second, Each: func(stream.Record) error {
			time.Sleep(time.Minute)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// Public case D11.
func TestRestoreTellsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{end: 200, stable: 200, every: 100 * time.Millisecond}
		for i := range int64(200) {
			f.records = append(f.records, put(i, "key", "value"))
		}
		lines, logger := newLog()
		var told []stream.Restoring
		keep, handed := fold(map[string]string{}), int64(0)
		if _, err := Restore(t.Context(), RestoreConfig{source: f, Logger: logger,
			Each: func(r stream.Record) error { handed++; return keep(r) },
			Progress: func(p stream.Restoring) {
				told = append(told, p)
				if p.Position != handed || p.Records != handed {
					t.Errorf("position %d and %d records were told when %d records had been handed over", p.Position, p.Records, handed)
				}
			}}); err != nil {
			t.Fatal(err)
		}
		if len(told) != 20 {
			t.Errorf("told %d times in 20 s, want 20", len(told))
		}
		if p := told[10]; p.Records != 101 || p.Bytes != 808 || p.Rate != 80 || p.ETA != 10*time.Second || p.Target != 200 {
			t.Errorf("after 10.1 s it told %+v", p)
		}
		if got := lines.with("restore goes on"); len(got) != 4 {
			t.Errorf("lines %q, want one each 5 s", got)
		}
	})
}
