package trial

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

const childName = "trial"

// childArg is what a process is told.
type childArg struct {
	App  App
	Name string // of this life of the member
	Log  string // path of the recorder's file
}

// Child is the process of a member, for kafkatest.Main.
func Child() kafkatest.Child { return kafkatest.Child{Name: childName, Run: runChild} }

// runChild runs the application until SIGTERM. Each event goes to the recorder's file at once, so that
// what a killed process has told is there.
func runChild(ctx context.Context, p *kafkatest.Parent) (err error) {
	var arg childArg
	if err := p.Arg(&arg); err != nil {
		return err
	}
	file, err := os.OpenFile(arg.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rec := holdfasttest.NewRecorder(arg.Name, file)
	c, err := arg.App.Build(rec, slog.New(slog.NewTextHandler(os.Stderr, nil)), tell(p))
	if err != nil {
		return err
	}
	reporting, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if every := arg.App.Stats; every > 0 {
		rec.Forget()
		wg.Go(func() { reportStats(reporting, p, every) })
	}
	err = c.Run(rule.Without(ctx, arg.App.off()...))
	stop()
	wg.Wait()
	rec.Stopped(err)
	return errors.Join(err, rec.Err())
}

// tell sends events to the test. One that cannot be sent has no reader any more: the test binary has
// ended, and this process with it.
func tell(p *kafkatest.Parent) holdfast.Hooks {
	say := func(e Event) { say(p, e) }
	released := func(kind string) func(stream.Released) {
		return func(e stream.Released) {
			say(Event{Kind: kind, Partition: e.Partition.Partition, Final: e.Flushed, Cause: message(e.Cause)})
		}
	}
	return holdfast.Hooks{
		Assigned: func(e stream.Assigned) {
			say(Event{Kind: holdfasttest.EventAssigned, Partition: e.Partition.Partition, Offset: e.Committed, Generation: e.Generation, TookOver: e.TookOver})
		},
		Restored: func(e stream.Restored) {
			say(Event{Kind: holdfasttest.EventRestored, Partition: e.Partition.Partition, Offset: e.Start})
		},
		Committed: func(e stream.Committed) {
			say(Event{Kind: holdfasttest.EventCommitted, Partition: e.Partition.Partition, Offset: e.Next, ReadBack: e.ReadBack})
		},
		Refused: func(e stream.Refused) {
			say(Event{Kind: holdfasttest.EventRefused, Partition: e.Partition.Partition, Cause: e.Cause, Final: e.Final, Detail: message(e.Err)})
		},
		Failed: func(e stream.Failed) {
			say(Event{Kind: holdfasttest.EventFailed, Partition: e.Partition.Partition, Offset: e.Offset, Cause: message(e.Err)})
		},
		Stalled: func(e stream.Stalled) {
			say(Event{Kind: holdfasttest.EventStalled, Partition: e.Partition.Partition, Cause: e.Diagnosis, Final: e.Final})
		},
		Revoked: released(holdfasttest.EventRevoked),
		Lost:    released(holdfasttest.EventLost),
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func say(p *kafkatest.Parent, e Event) {
	e.At = time.Now()
	line, err := json.Marshal(e)
	if err != nil {
		return // no event has what JSON cannot tell
	}
	_ = p.Event("%s", line)
}

// Stats is what a process uses.
type Stats struct {
	Heap        uint64 // bytes that live after a collection
	Goroutines  int
	Descriptors int // open files and connections; -1 where that cannot be told
}

func reportStats(ctx context.Context, p *kafkatest.Parent, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s := Stats{Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine(), Descriptors: -1}
		if open, err := os.ReadDir("/proc/self/fd"); err == nil {
			s.Descriptors = len(open)
		}
		say(p, Event{Kind: EventStats, Stats: &s})
	}
}
