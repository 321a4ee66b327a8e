package fence

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// recorder is a log of transactions without a broker: it keeps what is committed as a broker would,
// and lets a test fail any step.
type recorder struct {
	together  int   // records that the topic takes in one batch, 0: any number
	most      []int // how many were sent at once, by transaction
	mu        sync.Mutex
	calls     []string // begin, produce, offset, commit, abort, open, close
	committed []fakeTxn
	state     map[string]string
	offset_   wire.GroupOffset
	log       []Progress // committed progress records, the index is the offset
	opens     int
	// stableFrom is the takeover from which on no open transaction makes the offset unstable.
	stableFrom int
	// offsetErr, if not nil, is what the fetch of the committed offset returns.
	offsetErr error

	// fail, if set, is asked at each step of each transaction; n counts the transactions from 1. A
	// commit that fails is applied first if applied says so.
	fail    func(step wire.Step, n int) error
	applied func(n int) bool
	// hold, if set, is waited for before the first commit is answered.
	hold chan struct{}
	// throttle is what the brokers tell of quotas.
	throttle string
	// takes is how long the broker takes for a byte of a record, 0: no time.
	takes   time.Duration
	holding chan struct{}
	n       int
}

type fakeTxn struct {
	messages []stream.Message // without the progress record
	progress Progress
	offset   Offset
	token    Token
	metadata string
}

func newRecorder() *recorder {
	return &recorder{state: map[string]string{}, offset_: wire.GroupOffset{Next: -1, LeaderEpoch: -1}}
}

func (r *recorder) step(s wire.Step) error {
	if r.fail == nil {
		return nil
	}
	if err := r.fail(s, r.n); err != nil {
		return &wire.StepError{Step: s, Err: err}
	}
	return nil
}

func (r *recorder) count(call string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (r *recorder) open(ctx context.Context) (producer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opens++
	r.calls = append(r.calls, "open")
	if err := r.step(wire.StepInit); err != nil {
		return nil, err
	}
	return &fakeProducer{recorder: r, reuse: true}, nil
}

func (r *recorder) committedOffset() wire.GroupOffset {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.offset_
}

func (r *recorder) committed_(context.Context) (wire.GroupOffset, error) {
	return r.committedOffset(), nil
}

// opener is the recorder as the writer sees it.
type fakeOpener struct{ *recorder }

func (o fakeOpener) committed(ctx context.Context) (wire.GroupOffset, error) {
	return o.recorder.committed_(ctx)
}
func (o fakeOpener) throttled(time.Time) string { return o.recorder.throttle }
func (o fakeOpener) rest()                      {}

type fakeProducer struct {
	*recorder
	open_  *fakeTxn
	reuse  bool
	closed bool
}

func (p *fakeProducer) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.calls = append(p.calls, "begin")
	if p.open_ != nil {
		return errors.New("already in a transaction")
	}
	if err := p.step(wire.StepBegin); err != nil {
		return err
	}
	p.open_ = &fakeTxn{}
	return nil
}

func (p *fakeProducer) produce(ctx context.Context, ms []stream.Message, most int) (span, time.Duration, []error) {
	if errs := p.slowly(ctx, ms); errs != nil {
		return nowhere, 0, errs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, "produce")
	errs := make([]error, len(ms))
	failed, serial := false, most == 1
	if most == 0 || most > len(ms) {
		most = len(ms)
	}
	p.most = append(p.most, most)
	if p.together > 0 && most > p.together {
		for i := range most {
			errs[i] = &wire.StepError{Step: wire.StepProduce, Err: kerr.MessageTooLarge}
		}
		return nowhere, 0, errs
	}
	if err := p.step(wire.StepProduce); err != nil {
		errs[0], failed = err, true
	}
	for i, m := range ms {
		if string(m.Value) == "poison" {
			errs[i], failed = &wire.StepError{Step: wire.StepProduce, Err: kerr.InvalidRecord}, true
			if serial {
				break
			}
		}
	}
	if failed && !serial { // a broker refuses the whole batch
		for i := range errs {
			if errs[i] == nil {
				errs[i] = errs[firstError(errs)]
			}
		}
	}
	if failed {
		return nowhere, 0, errs
	}
	if !IsProgressKey(ms[len(ms)-1].Key) { // a probe, which is aborted
		return p.endLocked(), time.Millisecond, nil
	}
	progress, err := DecodeProgress(ms[len(ms)-1].Value)
	if err != nil {
		return nowhere, 0, []error{err}
	}
	p.open_.progress = progress
	p.open_.messages = ms[:len(ms)-1]
	return p.endLocked(), time.Millisecond, nil
}

// slowly takes the time that a broker does for the records, but for the progress record, which is the last.
func (r *recorder) slowly(ctx context.Context, ms []stream.Message) []error {
	size := int64(0)
	for _, m := range ms[:len(ms)-1] {
		size += m.BatchBytes()
	}
	r.mu.Lock()
	takes := time.Duration(size) * r.takes
	r.mu.Unlock()
	if takes == 0 {
		return nil
	}
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
	}
	errs := make([]error, len(ms))
	for i := range errs {
		errs[i] = &wire.StepError{Step: wire.StepProduce, Err: context.Cause(ctx)}
	}
	return errs
}

// endLocked is where the next transaction is written.
func (r *recorder) endLocked() span { return span{int64(len(r.log)), int64(len(r.log))} }

func firstError(errs []error) int {
	for i, err := range errs {
		if err != nil {
			return i
		}
	}
	return -1
}

func (p *fakeProducer) bind(ctx context.Context, t Token, o Offset, metadata string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, "offset")
	if err := p.step(wire.StepOffset); err != nil {
		return err
	}
	p.open_.token, p.open_.offset, p.open_.metadata = t, o, metadata
	return nil
}

func (p *fakeProducer) end(ctx context.Context, commit bool) error {
	p.mu.Lock()
	hold, holding := p.hold, p.holding
	p.hold = nil
	p.mu.Unlock()
	if hold != nil {
		close(holding)
		select {
		case <-hold:
		case <-ctx.Done():
			return &wire.StepError{Step: wire.StepEnd, Err: context.Cause(ctx)}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.open_
	p.open_ = nil
	if !commit {
		p.calls = append(p.calls, "abort")
		return nil
	}
	p.calls = append(p.calls, "commit")
	if t == nil { // the client sends nothing then, and says that all is well
		return nil
	}
	err := p.step(wire.StepEnd)
	if err == nil || p.applied != nil && p.applied(p.n) {
		p.commitLocked(*t)
	}
	return err
}

func (r *recorder) commitLocked(t fakeTxn) {
	r.committed = append(r.committed, t)
	for _, m := range t.messages {
		r.state[string(m.Key)] = string(m.Value)
	}
	r.log = append(r.log, t.progress)
	r.offset_ = wire.GroupOffset{Next: t.offset.Next, LeaderEpoch: t.offset.LeaderEpoch, Metadata: t.metadata}
}

func (p *fakeProducer) offset(context.Context) (wire.GroupOffset, error) {
	p.mu.Lock()
	unstable := p.opens < p.stableFrom
	p.mu.Unlock()
	if p.offsetErr != nil {
		return wire.GroupOffset{}, p.offsetErr
	}
	if unstable {
		return wire.GroupOffset{}, kerr.UnstableOffsetCommit
	}
	return p.committedOffset(), nil
}

func (p *fakeProducer) progress(ctx context.Context, from int64) (*Progress, int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := int64(len(p.log) - 1)
	if last < from {
		return nil, from - 1, nil
	}
	found := p.log[last]
	return &found, last, nil
}

func (p *fakeProducer) between(_ context.Context, from, to int64) (found *Progress, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := from; at < min(to, int64(len(p.log))); at++ {
		found = &p.log[at]
	}
	return found, nil
}

func (p *fakeProducer) fresh() bool    { return p.opens == 1 }
func (p *fakeProducer) reusable() bool { return p.reuse }
func (p *fakeProducer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.calls = append(p.calls, "close")
	}
}

func (r *recorder) snapshot() (state map[string]string, txns []fakeTxn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.state), append([]fakeTxn(nil), r.committed...)
}

// fakeSession is a group without a broker: the test sets what the member sees and what the group
// answers.
type fakeSession struct {
	*session
	mu         sync.Mutex
	memberID   string
	generation int32
	answer     error
	asked      int
}

func newFakeSession() *fakeSession {
	f := &fakeSession{session: newSession(), memberID: "member-1", generation: 1}
	f.group, f.sessionTimeout, f.rebalanceTimeout = testGroup, 10*time.Second, 60*time.Second
	f.metadata = func() (string, int32) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.memberID, f.generation
	}
	f.ask = func(context.Context, string, int32, stream.Partition) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked++
		return f.answer
	}
	return f
}

func (f *fakeSession) set(memberID string, generation int32) {
	f.mu.Lock()
	f.memberID, f.generation = memberID, generation
	f.mu.Unlock()
	f.wake()
}

func (f *fakeSession) grant() *Ownership {
	return newOwnership(1, stream.Partition{Topic: testInput}, "member-1", f.session)
}

// fakeWriter opens a writer over a recorder whose group has committed seed, -1 for nothing.
func fakeWriter(t *testing.T, r *recorder, o *Ownership, seed int64, adjust ...func(*Config)) *Writer {
	t.Helper()
	return fakeWriterUnder(t, context.Background(), r, o, seed, adjust...)
}

// fakeWriterUnder is fakeWriter with a context that may carry switched-off rules.
func fakeWriterUnder(t *testing.T, ctx context.Context, r *recorder, o *Ownership, seed int64, adjust ...func(*Config)) *Writer {
	t.Helper()
	r.offset_.Next = seed
	c := Config{
		Group: testGroup, Ownership: o, Input: stream.Partition{Topic: testInput},
		Progress: stream.Partition{Topic: testProgress}, InputPartitions: 1, Logger: testLogger(t),
	}
	for _, f := range adjust {
		f(&c)
	}
	c, err := c.resolved()
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := open(ctx, c, "id", fakeOpener{r})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeWriter(t, w) })
	return w
}
