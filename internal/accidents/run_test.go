package accidents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/hooklog"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// run is one member on a goroutine of the test.
type run struct {
	t      *testing.T
	name   string
	rec    *holdfasttest.Recorder
	tap    *wiretap.Cluster // nil, but for a member that is started behind one
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	log    *hooklog.Log
}

// revoked and lost tell the two hooks with the same event apart.
type (
	revoked = hooklog.Revoked
	lost    = hooklog.Lost
)

// start runs the component until it is ended or the test is over.
func (l *lab) start(name string, opts ...kgo.Opt) *run {
	l.t.Helper()
	return l.startUnder(l.t.Context(), name, opts...)
}

// startUnder is start with a context that may carry switched-off rules.
func (l *lab) startUnder(ctx context.Context, name string, opts ...kgo.Opt) *run {
	l.t.Helper()
	r := &run{t: l.t, name: name, done: make(chan struct{}), rec: holdfasttest.NewRecorder(name, nil)}
	r.log = hooklog.New(l.t, hooklog.Member{Name: name, Done: r.done, Err: func() error { return r.err }, Patience: patience})
	component, err := l.component(r, opts)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, r.cancel = context.WithCancel(ctx)
	go func() {
		defer close(r.done)
		r.err = component.Run(ctx)
		r.rec.Stopped(r.err)
	}()
	l.t.Cleanup(func() { r.cancel(); <-r.done })
	return r
}

func (l *lab) component(r *run, opts []kgo.Opt) (interface{ Run(context.Context) error }, error) {
	opts = append(opts, kgo.ClientID(r.name))
	if l.kind == copies {
		c := l.pipe(opts...)
		c.Hooks = []holdfast.Hooks{r.rec.Hooks(), r.log.Hooks()}
		return pipe.New(c)
	}
	c := l.flow(opts...)
	c.Hooks = []holdfast.Hooks{r.log.Hooks()}
	return holdfast.New(holdfasttest.Watch(r.rec, c))
}

// mark is a place in the events, to wait for what comes after it.
func (r *run) mark() int { return r.log.Mark() }

// await waits for an event after mark that is an E and accepted by is, and returns it.
func await[E any](r *run, mark int, is func(E) bool) E {
	r.t.Helper()
	return hooklog.Await(r.log, mark, is)
}

// any1 accepts every event.
func any1[E any](E) bool { return true }

// committedTo waits until next is committed for a partition.
func (r *run) committedTo(partition int32, next int64) {
	r.t.Helper()
	await(r, 0, func(e stream.Committed) bool { return e.Partition.Partition == partition && e.Next >= next })
}

// end stops the member, which has to end in order.
func (r *run) end() {
	r.t.Helper()
	r.cancel()
	<-r.done
	if r.err != nil {
		r.t.Errorf("%s ended with %v", r.name, r.err)
	}
}

// failure waits until the member has stopped by itself, and returns why.
func (r *run) failure() error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatalf("%s has not stopped within %v", r.name, patience)
	}
	if r.err == nil {
		r.t.Fatalf("%s stopped without an error", r.name)
	}
	return r.err
}

// refuses starts the component and checks that it stops with an error that is sentinel, says words and
// names a next step.
func (l *lab) refuses(sentinel error, words ...string) *run {
	l.t.Helper()
	r := l.start("refused")
	named(l.t, r.failure(), sentinel, words...)
	return r
}

// named checks that err is sentinel, says words, and names a next step.
func named(t *testing.T, err, sentinel error, words ...string) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("error %v, want one that is %v", err, sentinel)
	}
	e := (*stream.Error)(nil)
	if !errors.As(err, &e) || e.Hint == "" {
		t.Fatalf("error %v has no next step", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// loss is what the checker is to say beside nothing: so many violations of an invariant with these words.
type loss struct {
	invariant string
	n         int
	words     string
}

// atWill is the number of a loss that may be there any number of times, and need not.
const atWill = -1

// verdict has the history judged. It must be clean but for what is lost.
func (l *lab) verdict(losses []loss, runs ...*run) {
	l.t.Helper()
	l.verdictOf(func(*holdfasttest.History) {}, losses, runs...)
}

// verdictOf is verdict over a history that is changed first, as the accident asks.
func (l *lab) verdictOf(change func(*holdfasttest.History), losses []loss, runs ...*run) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	var members []holdfasttest.Member
	for _, r := range runs {
		if r != nil {
			members = append(members, r.rec.Member())
		}
	}
	h, err := holdfasttest.Collect(ctx, l.model(), members...)
	if err != nil {
		l.t.Fatalf("history: %v", err)
	}
	change(&h)
	judge(l.t, holdfasttest.Check(h, l.model()), losses)
}

// judge fails the test with what was found beside the losses, and with a loss that was not found.
func judge(t *testing.T, found []holdfasttest.Violation, losses []loss) {
	t.Helper()
	for _, want := range losses {
		n := 0
		found = slices.DeleteFunc(found, func(v holdfasttest.Violation) bool {
			is := v.Invariant == want.invariant && strings.Contains(v.What, want.words)
			if is {
				n++
			}
			return is
		})
		if n != want.n && want.n != atWill {
			t.Errorf("%d violations of %s with %q, want %d", n, want.invariant, want.words, want.n)
		}
	}
	for i, v := range found {
		if i == 20 {
			t.Errorf("and %d more", len(found)-i)
			break
		}
		t.Error(v)
	}
}

// repeated is the loss of outputs that are there once more.
func repeated(n int) []loss { return []loss{{"I4", n, "is here once more"}} }

func (r *run) String() string { return fmt.Sprintf("%s: %v", r.name, r.err) }
