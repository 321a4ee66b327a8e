// Package preflight looks at a cluster before a component starts: that it can be reached, that its
// brokers can do what the guarantee needs, and that topics, group and permissions are as they must be.
// It changes nothing, but for the component's own compacted topic if it is asked to create it.
package preflight

import (
	"time"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
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
	// TransactionTimeout is what the producers will ask for. 0: it is not compared with the brokers'
	// maximum.
	TransactionTimeout time.Duration
	// Claims are what the component promises on a cluster of that transaction.version.
	Claims func(transactionVersion int) []claim.Claim
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

func (f *Found) note(what, fact string, err error) error {
	if err != nil {
		fact = err.Error()
	}
	f.Report.Findings = append(f.Report.Findings, claim.Finding{What: what, Fact: fact, Err: err})
	return err
}

// warn adds warnings to the finding that was noted last.
func (f *Found) warn(warnings ...string) {
	last := &f.Report.Findings[len(f.Report.Findings)-1]
	for _, w := range warnings {
		if last.Warning != "" {
			last.Warning += "; "
		}
		last.Warning += w
	}
}

// noteTopic notes a topic that is there, or why it is not usable.
func (f *Found) noteTopic(what string, facts wire.Facts, err error) error {
	err = f.note(what, shape(facts), err)
	if err == nil {
		f.Report.Findings[len(f.Report.Findings)-1].Warning = weakness(facts)
	}
	return err
}
