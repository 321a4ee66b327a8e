package fence

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPauseAdapts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer()
		began := time.Now()
		p.wait(t.Context())
		if d := time.Since(began); d != 0 {
			t.Errorf("the first transaction waited %v", d)
		}
		p.end()
		p.wait(t.Context())
		if d := time.Since(began); d != pauseLeast {
			t.Errorf("R11: waited %v after the end, want %v", d, pauseLeast)
		}
		for range 10 {
			p.saw(time.Millisecond, 20*time.Millisecond)
		}
		if p.pause != pauseMost {
			t.Errorf("R11: held back again and again, the pause is %v, want %v", p.pause, pauseMost)
		}
		p.saw(time.Second, time.Millisecond) // long after an end: it says nothing
		for range calmAfter {
			p.saw(time.Millisecond, time.Millisecond)
		}
		if p.pause != pauseMost-pauseStep {
			t.Errorf("after %d unhindered ones the pause is %v", calmAfter, p.pause)
		}
		for range 1000 {
			p.saw(time.Millisecond, time.Millisecond)
		}
		if p.pause != pauseLeast {
			t.Errorf("the pause is %v, want %v", p.pause, pauseLeast)
		}
		p.saw(time.Second, 20*time.Millisecond) // slow for another reason
		if p.pause != pauseLeast {
			t.Errorf("a slow one long after the end made the pause %v", p.pause)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		p.wait(t.Context())
		if d := time.Since(began); d != 0 {
			t.Errorf("waited %v long after the end", d)
		}
	})
}

func TestPauseEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer()
		p.end()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		p.wait(ctx)
		if d := time.Since(began); d != 0 {
			t.Errorf("waited %v", d)
		}
	})
}
