package job

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/preflight"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// Job is one component's member of its group.
type Job struct {
	cfg    Config
	ran    atomic.Bool
	ended  atomic.Bool
	failed atomic.Pointer[stream.StatusError] // what Run has returned
	member atomic.Pointer[member.Member]      // nil: not started
	ready  chan struct{}                      // closed when the member is ready for the first time
}

// New returns a job, or every fault of its configuration together with those given.
func New(c Config, faults []error) (*Job, error) {
	c = c.withDefaults()
	if err := c.validate(faults); err != nil {
		return nil, err
	}
	return &Job{cfg: c, ready: make(chan struct{})}, nil
}

// Run runs the job until ctx ends or something stops it. It may be called once.
func (j *Job) Run(ctx context.Context) error {
	if j.ran.Swap(true) {
		return stream.NewError("run", Fault("the %s was run before", j.cfg.Component)).
			Hinted("make another %s with New", j.cfg.Component)
	}
	defer j.ended.Store(true) // also where a hook panics or ends the goroutine
	err := j.run(ctx)
	if err != nil {
		failed := member.StatusError(time.Now(), err)
		j.failed.Store(&failed)
	}
	return err
}

// Status says what the job is doing.
func (j *Job) Status() stream.Status {
	s := stream.Status{Group: j.cfg.Group, Generation: -1, Partitions: []stream.PartitionStatus{}}
	if m := j.member.Load(); m != nil {
		s = m.Status()
	}
	s.Running = j.ran.Load() && !j.ended.Load()
	if failed := j.failed.Load(); failed != nil && s.Stopped.At.IsZero() {
		s.Stopped = *failed
	}
	return s
}

// Ready is closed when the status is ready for the first time.
func (j *Job) Ready() <-chan struct{} { return j.ready }

func (j *Job) run(ctx context.Context) error {
	found, err := j.inspect(ctx, preflight.Mode{Create: j.cfg.Progress.Create != nil, Probe: true})
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it began
		}
		return err
	}
	j.logProbe(found)
	c, err := j.cfg.withTimings(found)
	if err != nil {
		return err
	}
	for _, w := range c.Kafka.Warnings() {
		c.Logger.Warn("the connection is not safe", "group", c.Group, "reason", w)
	}
	c.logTimings()
	mc := c.memberConfig(ctx, found)
	mc.Ready = func() { close(j.ready) }
	m := member.New(mc)
	j.member.Store(m)
	err = m.Run(ctx)
	if errors.Is(err, stream.ErrFlood) {
		c.holdBack(ctx)
	}
	return err
}

// holdBack waits before Run ends with too many dead letters, so that what starts it again does not do so in a tight
// loop. The group is left by then.
func (c Config) holdBack(ctx context.Context) {
	delay := c.DeadLetters.RestartDelay
	if delay <= 0 {
		return
	}
	c.Logger.Warn("waiting before the end, for there were too many dead letters", "group", c.Group, "wait", delay.String())
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
}

// logProbe says that the fence could not be probed: the start goes on, and somebody should know.
func (j *Job) logProbe(found preflight.Found) {
	for _, f := range found.Report.Findings {
		if f.ID == preflight.ProbeID && f.Warning != "" {
			j.cfg.Logger.Warn("the fence was not probed", "group", j.cfg.Group, "reason", f.Warning, "fix", strings.Join(f.Fix, "; "))
		}
	}
}

// Check looks at the cluster, and changes nothing that is live: the fence probe has a group and a
// transactional id of its own.
func (j *Job) Check(ctx context.Context) (claim.Report, error) {
	found, err := j.inspect(ctx, preflight.Mode{Deep: true, Probe: true})
	if err == nil {
		_, err = j.cfg.withTimings(found)
	}
	return found.Report, err
}

// Claims returns what the component promises on a cluster of transaction.version 2.
func (j *Job) Claims() []claim.Claim { return j.cfg.Claims(2) }

// inspect finds the facts and checks them.
func (j *Job) inspect(ctx context.Context, mode preflight.Mode) (preflight.Found, error) {
	c := j.cfg
	p := preflight.Job{
		Kafka: c.Kafka, Group: c.Group, Component: c.Component, Inputs: c.Inputs,
		Progress: preflight.ProgressTopic{Role: c.Progress.Role, Topic: c.Progress.Topic, ConfigField: c.Progress.CreateField},
		Outputs:  c.Outputs, SamePartition: c.AsRead,
		Rebuilds:      c.Start.Disagreement == Rebuild && c.Map == nil,
		Transactional: c.Guarantee != Unfenced, Claims: c.Claims, ServerSide: c.Member.Protocol == fence.ServerSide,
		Assignors: c.Member.Protocol.Assignors(),
		Times: preflight.Times{
			SessionTimeout: c.Member.SessionTimeout, RebalanceTimeout: c.Member.RebalanceTimeout, HeartbeatInterval: c.Member.HeartbeatInterval,
			RevokeBudget: c.Commit.RevokeBudget, CommitInterval: c.Commit.Interval,
		},
	}
	p.Refused = func(w preflight.Witnesses) error {
		return member.Refused(member.Witnesses{
			Group: c.Group, Input: w.Input, Committed: w.Committed, Progress: w.Progress, SnapshotEmpty: w.SnapshotEmpty, Stateless: c.Map != nil,
			LogStart: w.LogStart, RecordedStart: w.RecordedStart, StartMoves: w.StartMoves,
			InputStart: w.InputStart, InputEnd: w.InputEnd,
			InputID: w.InputID, Inputs: c.Inputs, Named: w.Named, ProgressAt: w.ProgressAt,
		}, c.start(), p.Transactional, !w.Features.Fenced())
	}
	if create := c.Progress.Create; create != nil {
		p.Progress.Create = &wire.TopicConfig{Replicas: create.Replicas, Configs: create.Configs}
	}
	if c.DeadLetters != nil {
		p.DeadLetters = c.DeadLetters.Topic
	}
	if p.Transactional {
		p.TransactionTimeout = c.Member.TransactionTimeout
	}
	return preflight.Inspect(ctx, p, mode)
}

// start is how a member begins.
func (c Config) start() member.Start {
	return member.Start{
		Latest:         c.Start.New == Latest,
		AtTime:         c.startTime(),
		Resume:         c.Start.Disagreement == ResumeAtProgress,
		LogStart:       c.Start.Disagreement == ResumeAtLogStart,
		AdoptEmpty:     c.Start.Disagreement == AdoptEmpty,
		AdoptRemaining: c.Start.Disagreement == AdoptRemaining,
		Rebuild:        c.Start.Disagreement == Rebuild,
	}
}

func (c Config) memberConfig(ctx context.Context, found preflight.Found) member.Config {
	m := member.Config{
		Kafka: c.Kafka,
		Session: fence.Session{
			Group: c.Group, InstanceID: c.Member.InstanceID, Protocol: c.Member.Protocol, SessionTimeout: c.Member.SessionTimeout,
			RebalanceTimeout: c.Member.RebalanceTimeout, HeartbeatInterval: c.Member.HeartbeatInterval,
			Application: fence.Application{Kind: c.Component, Progress: c.Progress.Topic},
		},
		TransactionTimeout: c.Member.TransactionTimeout,
		Component:          c.Component,
		Inputs:             found.Inputs,
		Snapshots:          found.Progress,
		Features:           found.Features,
		Fenced:             c.Guarantee != Unfenced,
		Whole:              c.Guarantee == FencedOutputs,
		Outputs:            c.placements(found),
		FoldVersion:        c.FoldVersion,
		Start:              c.start(),
		SilenceLimit:       c.Member.UnreachableTimeout,
		StallTimeout:       c.Restore.StallTimeout,
		RetainBytes:        c.Restore.RetainBytes,
		RetainFor:          c.Restore.RetainFor,
		RevokeBudget:       c.Commit.RevokeBudget,
		QueueRecords:       c.Member.QueueRecords,
		MaxWrites:          c.Commit.MaxWrites,
		MaxBytes:           c.Commit.MaxBytes,
		NewEngine:          c.engines(ctx, found),
		Map:                c.Map,
		Concurrency:        c.Concurrency,
		OnError:            c.OnError,
		DeadLetters:        c.DeadLetters,
		Logger:             c.Logger,
		Hooks:              c.Hooks,
	}
	if c.DeadLetters != nil {
		m.Breaker = dlq.NewBreaker(*c.DeadLetters)
	}
	return m
}

func (c Config) startTime() time.Time {
	if c.Start.New == AtTime {
		return c.Start.Time
	}
	return time.Time{}
}

// placements says where records for each output topic go. Letters keep the partition number of their
// input, so that those of one partition are in its order and repeats are next to each other.
func (c Config) placements(found preflight.Found) map[string]member.Output {
	out := make(map[string]member.Output, len(found.Outputs))
	for topic, facts := range found.Outputs {
		o := member.Output{Partitions: facts.Partitions, MaxRecordBytes: facts.MaxMessageBytes}
		letters := c.DeadLetters != nil && topic == c.DeadLetters.Topic
		if letters {
			o.Takes = dlq.Takes{Bytes: facts.MaxMessageBytes, Before: facts.TimeBefore, After: facts.TimeAfter, AppendTime: facts.AppendTime}
		}
		if letters || slices.Contains(c.AsRead, topic) {
			o.Placement = member.AsRead
		}
		out[topic] = o
	}
	return out
}

// engines returns the maker of the partitions' engines.
func (c Config) engines(ctx context.Context, found preflight.Found) func(stream.Partition) member.Engine {
	outputs := map[string]int{}
	for _, topic := range c.Outputs {
		outputs[topic] = found.Outputs[topic].MaxMessageBytes
	}
	settings := engine.Settings{
		Outputs:          outputs,
		Whole:            c.Guarantee == FencedOutputs,
		PersistInterval:  c.Commit.Persist,
		PersistCooldown:  c.Commit.PersistCooldown,
		CommitInterval:   c.Commit.Interval,
		MaxWrites:        c.Commit.MaxWrites,
		MaxBytes:         c.Commit.MaxBytes,
		MaxRecordBytes:   found.Progress.MaxMessageBytes,
		KeepDirty:        c.Commit.OnPersistError == KeepDirty,
		NoAppliedSkip:    !rule.On(ctx, rule.AppliedSkip),
		NoHolds:          !rule.On(ctx, rule.Holds),
		NoTwoWriteDelete: !rule.On(ctx, rule.TwoWriteDelete),
	}
	if settings.Whole { // a batch must be well within the time that the broker gives its transaction
		settings.CommitInterval = min(settings.CommitInterval, c.Member.TransactionTimeout/2)
	}
	return func(p stream.Partition) member.Engine {
		s := settings
		s.Partition = p
		return c.NewEngine(s)
	}
}
