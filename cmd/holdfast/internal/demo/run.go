package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// The bounds of a run. Each is far above what the step takes, and names what was waited for when it
// is passed.
const (
	stepTimeout    = 45 * time.Second
	drainStall     = 10 * time.Second // no commit for so long: nobody folds the rest
	drainTimeout   = 15 * time.Second
	auditTimeout   = 60 * time.Second
	restartsMost   = 4
	loadShare      = 20 // faults begin when the twentieth part of the input is folded
	progressEvery  = 100 * time.Millisecond
	committedEvery = 100 * time.Millisecond
)

// run is one run of the demo.
type run struct {
	o         Options
	place     *place
	journal   *journal
	generator *generator
	watch     *watch
	started   time.Time
	fail      context.CancelCauseFunc // ends the run, when no member is left to fold

	display sync.Mutex // one call of Display at a time

	mu        sync.Mutex
	taps      []*tap
	alive     map[string]*process
	named     int // names given so far
	restarts  int
	stopped   []string
	finishing bool
	group     sync.WaitGroup // supervisors
}

// Run makes one run and returns its verdict. An error means that there is none.
func Run(ctx context.Context, o Options) (Result, Details, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &run{fail: fail, o: o, journal: newJournal(), alive: map[string]*process{}, started: time.Now()}
	p, err := openPlace(ctx, o)
	if err != nil {
		return Result{}, Details{}, err
	}
	r.place = p
	result, details, err := r.all(ctx)
	if err != nil {
		return Result{}, Details{}, errors.Join(err, r.endAll(), p.shut())
	}
	return result, details, errors.Join(r.endAll(), p.shut())
}

func (r *run) all(ctx context.Context) (Result, Details, error) {
	r.note("%s", r.place.where)
	background, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	var err error
	if r.generator, err = newGenerator(r.place, r.o.Events, r.o.Pace); err != nil {
		return Result{}, Details{}, err
	}
	if r.watch, err = newWatch(r.place); err != nil {
		return Result{}, Details{}, err
	}
	helpers.Go(func() { r.watch.run(background) })
	helpers.Go(func() { r.showProgress(background) })
	if err := r.startMembers(ctx); err != nil {
		r.generator.client.Close()
		return Result{}, Details{}, err
	}
	helpers.Go(func() { r.generator.run(background, r.o.Seed) })
	if err := r.faults(ctx); err != nil {
		return Result{}, Details{}, err
	}
	if err := r.drain(ctx); err != nil {
		return Result{}, Details{}, err
	}
	return r.verdict(ctx)
}

// startMembers starts the members and waits until each has its share.
func (r *run) startMembers(ctx context.Context) error {
	for range r.o.Schedule.members {
		if _, err := r.startMember(); err != nil {
			return err
		}
	}
	err := r.step(ctx, "the members to hold all partitions", func(v view) bool {
		return len(v.owners()) == partitions && r.everyoneOwns(v)
	})
	if err != nil {
		return err
	}
	v, _ := r.journal.view()
	r.note("%d member processes fold %d partitions: %s", r.o.Schedule.members, partitions, r.holdings(v))
	return nil
}

// faults makes the schedule's faults, once there is load.
func (r *run) faults(ctx context.Context) error {
	if err := r.step(ctx, "commits of all partitions under load", r.underway); err != nil {
		return err
	}
	if err := r.o.Schedule.faults(ctx, r); err != nil {
		return fmt.Errorf("the schedule %s did not come about: %w", r.o.Schedule.Name, err)
	}
	return nil
}

// underway reports whether every partition commits and a part of the input is folded.
func (r *run) underway(v view) bool {
	folded := int64(0)
	for _, at := range v.committed {
		folded += at
	}
	return len(v.committed) == partitions && folded >= int64(r.o.Events/loadShare)
}

// note tells what happened, with the time since the start.
func (r *run) note(format string, args ...any) {
	r.display.Lock()
	defer r.display.Unlock()
	r.o.Display.Note(fmt.Sprintf("%5.1f s  ", time.Since(r.started).Seconds()) + fmt.Sprintf(format, args...))
}

// step waits until the journal shows what is looked for, within the bound of a step.
func (r *run) step(ctx context.Context, what string, look func(view) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, errors.New("it did not happen within "+stepTimeout.String()))
	defer cancel()
	return r.journal.await(ctx, what, look)
}

// within waits as step does, for a time after which not to have seen it is an answer as well.
func (r *run) within(ctx context.Context, limit time.Duration, look func(view) bool) (seen bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := r.journal.await(bounded, "", look); err != nil {
		return false, ctx.Err()
	}
	return true, nil
}

// startMember starts one more member process, behind a tap of its own.
func (r *run) startMember() (*process, error) {
	t, err := newTap(r.place.brokers, r.place.dial)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.taps = append(r.taps, t)
	name := string(rune('A' + r.named%26))
	r.named++
	r.mu.Unlock()
	spec := memberSpec{
		Name: name, Group: r.place.Group, Input: r.place.Input, Snapshots: r.place.Snapshots, Outputs: r.place.Outputs,
		Unfenced: r.o.Schedule.unfenced, Timing: r.o.Schedule.timing, Without: r.o.Without, Via: t.Map(), Token: t.token,
	}
	p, err := start(r.o.Member(r.place.brokers), spec, t, r.o.Log, func(p *process, line report) {
		if line.What == didAssign {
			p.tap.granted()
		}
		r.journal.add(p.name, line)
	})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.alive[name] = p
	ending := r.finishing
	r.mu.Unlock()
	r.group.Go(func() { r.supervise(p) })
	if ending { // it was started while the run came to its end
		return p, p.end(kill)
	}
	return p, nil
}

// supervise replaces a member that stops by itself, as whoever runs a service does.
func (r *run) supervise(p *process) {
	<-p.done
	r.mu.Lock()
	delete(r.alive, p.name)
	why := p.failure()
	again := why != nil && !r.finishing && r.restarts < restartsMost
	if why != nil {
		r.stopped = append(r.stopped, why.Error())
	}
	if again {
		r.restarts++
	}
	alone := len(r.alive) == 0 && !r.finishing && !again && why != nil
	r.mu.Unlock()
	if alone {
		r.fail(fmt.Errorf("every member has stopped by itself, the last one with: %w", why))
	}
	r.journal.add(p.name, report{What: didStop})
	if why == nil {
		return
	}
	r.note("%v", why)
	if !again {
		return
	}
	next, err := r.startMember()
	if err != nil {
		r.note("its replacement cannot be started: %v", err)
		return
	}
	r.note("%s takes its place", next.name)
}

// member returns a living member.
func (r *run) member(name string) (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.alive[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("member %s is not running", name)
}

func (r *run) everyoneOwns(v view) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.alive {
		if v.count(name) == 0 {
			return false
		}
	}
	return true
}

func (r *run) holdings(v view) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name := range r.alive {
		names = append(names, fmt.Sprintf("%s %d", name, v.count(name)))
	}
	if len(names) == 0 {
		return "no members"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// refused returns the refusals of stale writers and those of members in their rights, by request and
// error.
func (r *run) refused() (stale, rightful map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stale, rightful = map[string]int{}, map[string]int{}
	for _, t := range r.taps {
		s, others := t.split()
		countRefusals(stale, s)
		countRefusals(rightful, others)
	}
	return stale, rightful
}

func countRefusals(by map[string]int, refusals []wiretap.Refusal) {
	for _, r := range refusals {
		by[r.Request.Name()+" "+r.Err.Message]++
	}
}

func sum(by map[string]int) (n int) {
	for _, count := range by {
		n += count
	}
	return n
}

func (r *run) showProgress(ctx context.Context) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		v, _ := r.journal.view()
		p := Progress{Made: r.generator.count(), Wanted: r.o.Events, Takeovers: r.journal.tookOver(), Members: r.holdings(v)}
		for _, at := range v.committed {
			p.Folded += int(at)
		}
		stale, _ := r.refused()
		p.Refused = sum(stale)
		r.display.Lock()
		r.o.Display.Progress(p)
		r.display.Unlock()
	}
}

// drain lets the generator end, waits until everything is folded and committed, and ends the members.
func (r *run) drain(ctx context.Context) error {
	if err := r.generator.finish(ctx); err != nil {
		return err
	}
	r.note("all %d events are in the input", r.generator.count())
	complete, err := r.folded(ctx)
	if err != nil {
		return err
	}
	if complete {
		r.note("every event is folded and its offset committed; the members are told to end")
	} else {
		r.note("no commit for %v although there is input left; the members are told to end", drainStall)
	}
	r.mu.Lock()
	r.finishing = true
	living := make([]*process, 0, len(r.alive))
	for _, p := range r.alive {
		living = append(living, p)
	}
	r.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(living))
	for i, p := range living {
		wg.Go(func() { errs[i] = p.drain(bounded) })
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// folded waits until the committed offsets are the ends of the input. It returns false when they
// have not moved for a while.
func (r *run) folded(ctx context.Context) (bool, error) {
	ends := r.generator.end()
	tick := time.NewTicker(committedEvery)
	defer tick.Stop()
	var before int64
	moved := time.Now()
	for {
		at, err := r.place.committed(ctx)
		if err != nil {
			return false, err
		}
		var sum int64
		complete := true
		for p, end := range ends {
			sum += at[p]
			complete = complete && at[p] >= end
		}
		if complete {
			return true, nil
		}
		if sum != before {
			before, moved = sum, time.Now()
		}
		if time.Since(moved) > drainStall {
			return false, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// verdict has the audit look at what is there.
func (r *run) verdict(ctx context.Context) (Result, Details, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, auditTimeout, errors.New("the audit took longer than "+auditTimeout.String()))
	defer cancel()
	found, err := audit.Run(ctx, r.place.kafka, r.place.Place)
	if err != nil {
		return Result{}, Details{}, err
	}
	stale, rightful := r.refused()
	result := Result{
		Events: found.Events, Keys: found.Keys, Takeovers: r.journal.tookOver(), Refused: sum(stale),
		Lost: found.Lost, Repeated: found.Repeated, Seed: r.o.Seed,
	}
	result.OK = found.Clean() && (result.Refused > 0 || !r.o.Schedule.refuses)
	r.mu.Lock()
	defer r.mu.Unlock()
	details := Details{
		Audit: found, Refusals: stale, Rightful: rightful, Stopped: r.stopped, Took: time.Since(r.started), Where: r.place.where,
		Schedule: r.o.Schedule, Claims: r.claims(),
	}
	var damaged []error
	for _, t := range r.taps {
		damaged = append(damaged, t.Err())
	}
	return result, details, errors.Join(damaged...)
}

func (r *run) claims() []claim.Claim {
	guarantee := claim.FencedState
	if r.o.Schedule.unfenced {
		guarantee = claim.Unfenced
	}
	return claim.Flow(guarantee, r.place.transactionVersion)
}

// endAll kills what still runs and closes the taps.
func (r *run) endAll() error {
	r.mu.Lock()
	r.finishing = true
	living := make([]*process, 0, len(r.alive))
	for _, p := range r.alive {
		living = append(living, p)
	}
	r.mu.Unlock()
	var errs []error
	for _, p := range living {
		errs = append(errs, p.end(kill))
	}
	r.group.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.taps {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
