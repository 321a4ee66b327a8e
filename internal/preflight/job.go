// Package preflight looks at a cluster before a component starts: that it can be reached, that its
// brokers can do what the guarantee needs, and that topics, group and permissions are as they must be.
// It changes nothing, but for the component's own compacted topic if it is asked to create it.
package preflight

import (
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Job says what a component will do on the cluster.
type Job struct {
	Kafka     kafka.Config
	Group     string
	Component string // claim.ComponentFlow or claim.ComponentPipe
	Inputs    []string
	Progress  ProgressTopic
	Outputs   []string
	// DeadLetters is the topic for records that failed. "": none.
	DeadLetters string
	// SamePartition are those of Outputs whose records go to the partition with the input's number, so
	// that they need as many partitions as each input.
	SamePartition []string
	// Transactional demands brokers whose commit of an offset in a transaction is checked against the
	// generation of the member.
	Transactional bool
	// ServerSide demands brokers that serve groups of KIP-848, in Kafka 4.3's way.
	ServerSide bool
	// Assignors are those that the member offers to a classic group; nil: the broker assigns.
	Assignors []string
	// TransactionTimeout is what the producers will ask for. 0: it is not compared with the brokers'
	// maximum.
	TransactionTimeout time.Duration
	// Times are the member's. The zero value: they are not compared with what the brokers allow.
	Times
	// Rebuilds says that the component would fold its input from the first record on where offset and snapshots
	// disagree: what the input has lost by then has no states any more.
	Rebuilds bool
	// Refused says why a start at these witnesses would be refused; nil: it would not.
	Refused func(Witnesses) error
	// Claims are what the component promises on a cluster of that transaction.version.
	Claims func(transactionVersion int) []claim.Claim
}

// RevokeDefault is the most that a revoke takes by default. The end of Run is one, and with what comes after it is
// over within the 30 s that orchestrators give a process.
const RevokeDefault = 15 * time.Second

// Times are the timings of a member, the defaults filled in.
type Times struct {
	SessionTimeout    time.Duration
	RebalanceTimeout  time.Duration
	HeartbeatInterval time.Duration
	RevokeBudget      time.Duration
	CommitInterval    time.Duration
}

// Mode says how much an inspection does.
type Mode struct {
	// Create makes a missing compacted topic of the component's own.
	Create bool
	// Deep looks at what a start does not wait for: records that show where keys are put, topics of the
	// brokers' own, configurations that are advice.
	Deep bool
	// Probe runs the fence probe.
	Probe bool
}

// ProgressTopic is the compacted topic that the component keeps its snapshots or its progress in. It
// has as many partitions as the inputs together, laid one after the other in the order of Inputs.
type ProgressTopic struct {
	Role  string // "snapshot" or "progress", the word in what is reported
	Topic string
	// Create says how a missing one is created at start. nil: a missing one refuses the start.
	Create *wire.TopicConfig
	// ConfigField is the configuration's name for Create, as "Snapshots.Create".
	ConfigField string
}

// Found is what a component is started with.
type Found struct {
	Inputs   []wire.Facts // in the order of Job.Inputs
	Progress wire.Facts
	Outputs  map[string]wire.Facts // by topic, the dead letters' included
	Features wire.Features
	Timings  wire.GroupTimings // with Job.ServerSide; 0: the brokers have not told
	Report   claim.Report
}

// partitions of all inputs together.
func (f Found) partitions() int32 {
	var n int32
	for _, in := range f.Inputs {
		n += in.Partitions
	}
	return n
}

func (f *Found) add(finding claim.Finding) {
	f.Report.Findings = append(f.Report.Findings, finding)
}

// note notes a fact, or the error that refuses the start, whose hint is the fix.
func (f *Found) note(id, what, fact string, err error) error {
	finding := claim.Finding{ID: id, What: what, Fact: fact, Err: err}
	if err != nil {
		finding.Fact = told(what, err)
		if e := (*stream.Error)(nil); errors.As(err, &e) && e.Hint != "" {
			finding.Fix = []string{e.Hint}
		}
	}
	f.add(finding)
	return err
}

// told is the text of an error, without the place where what has it.
func told(what string, err error) string {
	e, plain := err.(*stream.Error) // a joined or wrapped one says more than its part
	if plain && strings.HasPrefix(e.Op, "check") && strings.Contains(what, e.Topic) && e.Offset < 0 && e.Partition < 0 {
		return e.Err.Error()
	}
	return err.Error()
}

// warn adds a warning, and what mends it, to the finding that was noted last.
func (f *Found) warn(warning string, fix ...string) {
	last := &f.Report.Findings[len(f.Report.Findings)-1]
	last.Warning, last.Fix = joined(last.Warning, warning), append(last.Fix, fix...)
}

// advise adds an advice to the finding that was noted last.
func (f *Found) advise(advice string, fix ...string) {
	last := &f.Report.Findings[len(f.Report.Findings)-1]
	last.Advice, last.Fix = joined(last.Advice, advice), append(last.Fix, fix...)
}

func joined(before, more string) string {
	if before == "" {
		return more
	}
	return before + "; " + more
}
