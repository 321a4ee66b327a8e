// Package member is one member of a flow's consumer group: it polls, hands each partition's records
// to the partition's worker, and takes ownerships from fence.Group.
//
// Goroutines: Run polls, on its caller's goroutine. Each ownership has one worker, started when it
// is granted; a worker starts one more for each commit and waits for it. Run waits for all workers.
package member

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Engine is one partition's state machine; *engine.Engine[S] is the only implementation. Only the
// partition's worker calls it.
type Engine interface {
	Load(engine.Snapshot) error
	RaiseIncarnation(n uint32)
	Singly(keys map[string]int64)
	Bound(bytes int64)
	After(epoch int32)
	Retain() bool
	CopyByCodec()
	Start(now time.Time, next, committed int64, skip map[int64]bool)
	Step(ctx context.Context, now time.Time, r stream.Record) engine.Result
	Mapped(r stream.Record, ms []stream.Message, err error) engine.Result
	Skip(r stream.Record)
	Read(to int64, epoch int32)
	DeadLetter(r stream.Record, letter stream.Message)
	Full() bool
	Due() (time.Time, bool)
	Close(now time.Time, drain bool) (*engine.Batch, error)
	Committed(now time.Time, b *engine.Batch)
	Refused(now time.Time, b *engine.Batch, i int, err error) (*engine.Batch, error)
	Slow(now time.Time, b *engine.Batch) engine.Again
	Kept() []error
	Stats() engine.Stats
	Next() int64
	CommittedOffset() int64
}

// Config is what a member needs. The root package fills it in; every field is set.
type Config struct {
	Kafka              kafka.Config
	Session            fence.Session
	TransactionTimeout time.Duration
	Component          string       // claim.ComponentFlow or claim.ComponentPipe
	Inputs             []wire.Facts // facts of the input topics at start; several: each partition is on its own
	Snapshots          wire.Facts   // facts of the snapshot topic at start, of a pipe the progress topic
	Features           wire.Features
	Fenced             bool // FencedState and FencedOutputs; else Unfenced
	Whole              bool // FencedOutputs: the engine's batches are whole, with outputs and dead letters in them
	Outputs            map[string]Output
	FoldVersion        string
	Start              Start
	StallTimeout       time.Duration
	RetainBytes        int64         // what may be retained of revoked partitions together; under 0: nothing
	RetainFor          time.Duration // and for how long; under 0: nothing is
	SilenceLimit       time.Duration // the member stops when the group has not answered for it
	RevokeBudget       time.Duration
	QueueRecords       int
	MaxWrites          int
	MaxBytes           int64
	NewEngine          func(p stream.Partition) Engine
	// Map makes the step of a component without state: it is called beside the engine, up to Concurrency
	// calls of a partition at a time, and its results are taken in the order of the records. nil: the
	// engine calls the user's function itself.
	Map         func(ctx context.Context, r stream.Record) ([]stream.Message, error)
	Concurrency int
	OnError     func(context.Context, *stream.RecordError) stream.Action
	DeadLetters *dlq.Policy  // nil: none; its topic is one of Outputs here
	Breaker     *dlq.Breaker // of DeadLetters
	Logger      *slog.Logger // not nil; lines get the group
	Hooks       []stream.Hooks
	Ready       func() // called once, when all partitions that the group has given were restored
}

// Output is a topic that outputs or dead letters go to.
type Output struct {
	Partitions     int32
	MaxRecordBytes int
	Placement      Placement
	Takes          dlq.Takes // of the dead-letter topic
}

// Placement says to which partition of an output topic a record goes.
type Placement int

const (
	ByKey  Placement = iota // murmur2 over the key, as Java's clients
	AsRead                  // the partition with the number of the input's, modulo the topic's count
)

// Start is the start policy.
type Start struct {
	Latest     bool
	AtTime     time.Time // zero: not by time
	Resume     bool      // committed offset missing: resume at the progress record
	LogStart   bool      // the next offset is below the start of the log: go on there
	AdoptEmpty bool      // snapshots missing: begin empty at the committed offset
	// AdoptRemaining goes on with the states that are left where snapshots were deleted.
	AdoptRemaining bool
	Rebuild        bool // any disagreement: fold again from the beginning
}

// hooks calls the functions that are set.
type hooks []stream.Hooks

func call[E any](hs hooks, pick func(stream.Hooks) func(E), e E) {
	for _, h := range hs {
		if f := pick(h); f != nil {
			f(e)
		}
	}
}
