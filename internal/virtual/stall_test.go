//go:build synctests

package virtual

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/hooklog"
	"github.com/holdfast-go/holdfast/stream"
)

// TestStrangerOnTheInput has a transaction of a stranger open on the input, with records of others behind it.
// The stall is named once with its producer, told to the hooks while it lasts, and told to be over; nothing is
// aborted, and everything is committed in the end.
func TestStrangerOnTheInput(t *testing.T) {
	each(t, prompt, func(t *testing.T, w *world) {
		log := hooklog.New(t, hooklog.Member{Name: "m"})
		w.hooks = log.Hooks()
		w.start("m")
		w.send(few(20)...)
		w.committed(time.Minute)
		time.Sleep(5 * time.Minute)
		if told := hooklog.All[stream.InputStalled](log, 0); len(told) > 0 {
			t.Errorf("an idle input was told to stall: %+v", told)
		}
		stranger := w.strangerIn(input, "14")
		opened := time.Now()
		w.send(few(20)...)
		time.Sleep(25 * time.Second)
		told := hooklog.All[stream.InputStalled](log, 0)
		if len(told) == 0 {
			t.Fatalf("I6: nothing was told 25 s after a transaction was opened\n%s", strings.Join(w.trace(), "\n"))
		}
		e := told[0]
		if e.TransactionalID != "stranger" || e.ProducerID < 0 || e.Over || e.Offset >= e.HighWatermark || e.Partition.Topic != input ||
			e.Since.Sub(opened).Abs() > 2*time.Second || e.Timeout != 14*time.Minute || !strings.Contains(e.Diagnosis, `transactional id "stranger"`) {
			t.Errorf("I6: told %+v", e)
		}
		time.Sleep(3 * time.Minute)
		if err := stranger.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatalf("the stranger's transaction does not stand any more: %v", err)
		}
		stranger.Close()
		w.committed(time.Minute)
		time.Sleep(20 * time.Second)
		told = hooklog.All[stream.InputStalled](log, 0)
		last := told[len(told)-1]
		if !last.Over || last.For < 3*time.Minute || len(told) < 15 || len(told) > 25 {
			t.Errorf("told %d times, last %+v", len(told), last)
		}
		warned := 0
		for _, line := range w.trace() {
			if strings.Contains(line, "the input waits for an open transaction") {
				warned++
			}
		}
		if warned != 1 {
			t.Errorf("warned %d times, want once", warned)
		}
	})
}
