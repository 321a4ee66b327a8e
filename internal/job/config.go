// Package job is what a flow and a pipe have in common below their public faces: defaults and checks of
// a configuration, the preflight, and the member that runs it.
package job

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Guarantee, Position, Disagreement and OnPersistError have the values of the root package's types of
// the same names, which document them.
type (
	Guarantee      int
	Position       int
	Disagreement   int
	OnPersistError int
)

// The guarantees.
const (
	FencedState Guarantee = iota
	FencedOutputs
	Unfenced
)

// Where a new component begins.
const (
	Earliest Position = iota
	Latest
	AtTime
)

// What to do where offset and snapshots disagree.
const (
	StopAndAsk Disagreement = iota
	ResumeAtProgress
	AdoptEmpty
	AdoptRemaining
	Rebuild
	ResumeAtLogStart
)

// What to do about a state that cannot be written.
const (
	StopOnPersistError OnPersistError = iota
	KeepDirty
)

// Config describes a component. Its fields are documented where users meet them.
type Config struct {
	Kafka     kafka.Config
	Component string // claim.ComponentFlow or claim.ComponentPipe
	Group     string
	Inputs    []string
	Outputs   []string
	// AsRead has the outputs whose records keep the partition number of their input.
	AsRead      []string
	Progress    Progress
	FoldVersion string
	Guarantee   Guarantee
	OnError     func(context.Context, *stream.RecordError) stream.Action
	DeadLetters *dlq.Policy
	Member      Member
	Start       Start
	Restore     Restore
	Commit      Commit
	Logger      *slog.Logger
	Hooks       []stream.Hooks
	Claims      func(transactionVersion int) []claim.Claim

	// NewEngine makes the engine of one partition.
	NewEngine func(engine.Settings) member.Engine
	// Map and Concurrency are a pipe's, see member.Config.
	Map         func(context.Context, stream.Record) ([]stream.Message, error)
	Concurrency int
}

// Progress is the compacted topic that the component writes for itself.
type Progress struct {
	Role       string // "snapshot" or "progress", the word in what is reported
	Topic      string
	TopicField string // the configuration's name for Topic, as "Snapshots.Topic"
	Create     *Create
	// CreateField is the configuration's name for Create, as "Snapshots.Create".
	CreateField string
}

// Create says how the topic is created if it is missing.
type Create struct {
	Replicas int16
	Configs  map[string]string
}

// Member has the fields of holdfast.Member.
type Member struct {
	Protocol           fence.Protocol
	InstanceID         string
	SessionTimeout     time.Duration
	RebalanceTimeout   time.Duration
	HeartbeatInterval  time.Duration
	TransactionTimeout time.Duration
	UnreachableTimeout time.Duration
	QueueRecords       int
}

// Start has the fields of holdfast.Start.
type Start struct {
	New          Position
	Time         time.Time
	Disagreement Disagreement
}

// Restore has the fields of holdfast.Restore.
type Restore struct {
	StallTimeout time.Duration
	RetainBytes  int64
	RetainFor    time.Duration
}

// Commit has the fields of holdfast.Commit.
type Commit struct {
	Persist         time.Duration
	PersistCooldown time.Duration
	Interval        time.Duration
	MaxWrites       int
	MaxBytes        int64
	RevokeBudget    time.Duration
	OnPersistError  OnPersistError
}
