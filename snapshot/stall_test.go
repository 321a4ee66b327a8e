package snapshot

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// What an operator reads: the cause says who and since when, the hint says what to do.
func TestStallTexts(t *testing.T) {
	abort := "kafka-transactions.sh abort --start-offset 1"
	for name, tc := range map[string]struct {
		change func(f *fakeLog, now time.Time)
		want   []string
		not    []string
	}{
		"within its timeout": {func(f *fakeLog, now time.Time) {
			f.holders = []wire.Holder{{ProducerID: 7, ProducerEpoch: 2, FirstOffset: 1, TransactionalID: "etl", State: "Ongoing",
				CurrentEpoch: 2, Started: now.Add(-time.Minute), Timeout: 15 * time.Minute, LastWrite: now.Add(-time.Second)}}
		}, []string{`transactional id "etl"`, "last write here 1999-12-31T23:59:59Z", "(1m3s ago)",
			"aborts it by 2000-01-01T00:14:15Z at the latest", abort}, []string{"hangs"}},
		"past its timeout": {func(f *fakeLog, now time.Time) {
			f.holders = []wire.Holder{{ProducerID: 7, FirstOffset: 1, TransactionalID: "etl", State: "Ongoing",
				Started: now.Add(-time.Hour), Timeout: time.Minute}}
		}, []string{"past its timeout", "hangs", "__transaction_state", abort}, []string{"at the latest"}},
		"forgotten by its coordinator": {func(f *fakeLog, now time.Time) {
			f.holders = []wire.Holder{{ProducerID: 7, ProducerEpoch: 2, FirstOffset: 1, TransactionalID: "etl",
				State: "CompleteAbort", CurrentEpoch: 5, Started: now, Timeout: time.Minute}}
		}, []string{"state CompleteAbort, epoch 5", "no timeout ends it", "no producer will end it", abort}, nil},
		"of a later transaction": {func(f *fakeLog, now time.Time) {
			f.holders = []wire.Holder{{ProducerID: 7, ProducerEpoch: 2, FirstOffset: 1, TransactionalID: "etl",
				State: "Ongoing", CurrentEpoch: 5, Started: now, Timeout: time.Minute}}
		}, []string{"moved on (state Ongoing, epoch 5)", "no timeout ends it", abort}, nil},
		"ours": {func(f *fakeLog, now time.Time) {
			f.holders = []wire.Holder{{ProducerID: 7, FirstOffset: 1, TransactionalID: "us", State: "Ongoing", Started: now, Timeout: time.Minute}}
		}, []string{`"us", this partition's own, opened by another process`, "find and stop it", abort}, nil},
		"unknown id": {func(f *fakeLog, _ time.Time) {
			f.holders = []wire.Holder{{ProducerID: 7, FirstOffset: 1, Unknown: "grant this"}}
		}, []string{"producer id 7 epoch 0, from offset 1; grant this", "stop the producer", abort}, nil},
		"unknown holder": {func(f *fakeLog, _ time.Time) { f.holdErr = errors.New("no such request") },
			[]string{"holds the last stable offset at 1", "could not be found out: no such request", "find-hanging", abort}, nil},
		"ended meanwhile": {func(*fakeLog, time.Time) {}, []string{"ended since then", "Next: restart"}, nil},
		"fetches bring nothing": {func(f *fakeLog, _ time.Time) { f.stable, f.readErr = 3, errors.New("connection refused") },
			[]string{"no transaction holds the read back", "connection refused"}, []string{"abort"}},
		"no end": {func(f *fakeLog, _ time.Time) { f.endsErr = errors.New("broker is down") },
			[]string{"cause undetermined", "broker is down", "kafka-topics.sh --describe"}, []string{"abort"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeLog{end: 3, stable: 1}
				tc.change(f, time.Now())
				lines, logger := newLog()
				_, err := Restore(t.Context(), RestoreConfig{source: f, Each: fold(map[string]string{}), TransactionalID: "us", StallTimeout: 3 * time.Second, Logger: logger})
				if !errors.Is(err, stream.ErrRestoreStalled) || errors.Is(err, stream.ErrTruncated) {
					t.Fatalf("got %v, want a stall", err)
				}
				t.Log(err)
				for _, want := range tc.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q is missing in %q", want, err)
					}
				}
				for _, not := range tc.not {
					if strings.Contains(err.Error(), not) {
						t.Errorf("%q is in %q", not, err)
					}
				}
				if got := lines.with("level=ERROR"); len(got) != 0 {
					t.Errorf("logged %q: the error is returned, and is logged once by whoever ends the partition", got)
				}
			})
		})
	}
}
