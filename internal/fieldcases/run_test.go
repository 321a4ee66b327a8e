package fieldcases

import (
	"context"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/hooklog"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// run is one member on a goroutine of the test, with a way to the brokers of its own.
type run struct {
	t      *testing.T
	name   string
	link   *link
	rec    *holdfasttest.Recorder
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Run, once done is closed
	log    *hooklog.Log
}

// revoked and lost tell the two hooks with the same event apart.
type (
	revoked = hooklog.Revoked
	lost    = hooklog.Lost
)

// start runs a member until it is ended or the test is over.
func (l *lab) start(name string, c holdfast.Config[tally]) *run {
	l.t.Helper()
	return l.startUnder(l.t.Context(), name, c)
}

// startUnder is start with a context that may carry switched-off rules.
func (l *lab) startUnder(ctx context.Context, name string, c holdfast.Config[tally]) *run {
	l.t.Helper()
	r := &run{t: l.t, name: name, link: newLink(), rec: holdfasttest.NewRecorder(name, nil), done: make(chan struct{})}
	maps.Copy(r.link.resets, l.resets)
	r.log = hooklog.New(l.t, hooklog.Member{Name: name, Done: r.done, Err: func() error { return r.err }, Patience: patience})
	c.Kafka.Opts = append([]kgo.Opt{kgo.ClientID(name), kgo.Dialer(r.link.dial)}, c.Kafka.Opts...)
	c.Hooks = append(c.Hooks, r.log.Hooks())
	f, err := holdfast.New(holdfasttest.Watch(r.rec, c))
	l.must(err)
	// The fence probe speaks the same protocol for a group of its own: a test that waits for a request, or
	// fails one, means the flow's.
	ctx, r.cancel = context.WithCancel(rule.Without(ctx, rule.FenceProbe))
	go func() {
		defer close(r.done)
		r.err = f.Run(ctx)
		r.rec.Stopped(r.err)
	}()
	l.t.Cleanup(func() { r.link.resume(); _ = r.end() })
	l.runs = append(l.runs, r)
	return r
}

// end stops the member and returns what Run does.
func (r *run) end() error {
	r.cancel()
	<-r.done
	return r.err
}

// all returns the member's events of one kind.
func all[E any](r *run) []E { return hooklog.All[E](r.log, 0) }

// await waits for an event that is as wanted, and returns the first one.
func await[E any](r *run, is func(E) bool) E {
	r.t.Helper()
	return hooklog.Await(r.log, 0, is)
}

func (r *run) committedTo(partition int32, next int64) {
	r.t.Helper()
	await(r, func(e stream.Committed) bool { return e.Partition.Partition == partition && e.Next >= next })
}

func (r *run) restored(partition int32) stream.Restored {
	r.t.Helper()
	return await(r, func(e stream.Restored) bool { return e.Partition.Partition == partition })
}
