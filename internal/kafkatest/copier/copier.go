// Package copier runs a transactional copier of another make: a small Java program over Apache
// Kafka's own client, after the manner of Kafka's TransactionalMessageCopier. Tests have it as a
// member of a group beside members of ours.
package copier

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

//go:embed Copier.java
var source string

// Config says what is copied, and as whom. The names are required.
type Config struct {
	Group         string
	Input, Output string // the output needs as many partitions as the input
	// TransactionalID is the copier's own. Who starts another with the same id takes it over.
	TransactionalID string
	// Records bounds one transaction. Zero: 50.
	Records int
	// AbortEvery aborts every n-th transaction on purpose and goes back to the committed offsets, so
	// that the same records go again. Zero: 3; negative: never.
	AbortEvery int
	// Hold is the path of a file. Once it exists, the copier stops in its next transaction, with the
	// records and the offsets in it, until the process is killed or told to stop. It says Holding.
	// "": never.
	Hold string
	// Assignors are the classes of partition.assignment.strategy, with commas between them. "": a
	// cooperative-sticky one that says when it leads.
	Assignors string
	// ServerSide has it speak KIP-848 (group.protocol=consumer). The group's configuration at the brokers
	// has session and heartbeat then.
	ServerSide bool
	// Zero: 6 s, 300 ms, 20 s and 10 s.
	SessionTimeout, HeartbeatInterval, RebalanceTimeout, TransactionTimeout time.Duration
}

// Event is what a copier says, one to a line. Fields that an event does not have are zero.
type Event struct {
	Name        string `json:"event"`
	Partitions  []int32
	Transaction int64 // counts from 1, the aborted ones too
	Records     int   // in that transaction
	Copied      int64 // records that this process has committed so far
	Members     int   // that the leader has assigned to
	Error       string
}

// The events of a copier.
const (
	Started       = "started"       // the transactional id is taken
	Assigned      = "assigned"      // Partitions were added
	Revoked       = "revoked"       // Partitions were given back
	Lost          = "lost"          // Partitions were taken away
	Leads         = "leads"         // this member leads the group, and has assigned to Members
	Committed     = "committed"     // Transaction is committed
	Aborted       = "aborted"       // Transaction was aborted on purpose
	Failed        = "failed"        // Transaction was aborted for Error
	Reinitialised = "reinitialised" // the producer was of no use after Error, and there is another
	Waiting       = "waiting"       // the committed offsets could not be read yet
	Holding       = "holding"       // Transaction stays open, see Config.Hold
	Stopped       = "stopped"       // by SIGTERM, in order
)

// Parse reads a line of a copier's standard output.
func Parse(line string) (Event, error) {
	var e Event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		return e, fmt.Errorf("copier: event %q: %w", line, err)
	}
	return e, nil
}

// Start runs a copier until the test's end at the latest. Its events come through Process.Next, as
// Parse takes them. Process.Stop ends it in order.
func Start(tb testing.TB, cluster *kafkatest.Cluster, c Config) *kafkatest.Process {
	tb.Helper()
	millis := func(d, otherwise time.Duration) int64 {
		if d == 0 {
			d = otherwise
		}
		return d.Milliseconds()
	}
	arg := func(name string, value any) string { return fmt.Sprintf("%s=%v", name, value) }
	return kafkatest.StartJava(tb, kafkatest.Java{Class: "Copier", Source: source},
		arg("brokers", strings.Join(cluster.Addrs, ",")), arg("client", c.TransactionalID),
		arg("group", c.Group), arg("input", c.Input), arg("output", c.Output), arg("id", c.TransactionalID),
		arg("records", orDefault(c.Records, 50)), arg("abortEvery", orDefault(c.AbortEvery, 3)), arg("hold", c.Hold),
		arg("assignors", c.Assignors), arg("serverSide", c.ServerSide),
		arg("session", millis(c.SessionTimeout, 6*time.Second)), arg("heartbeat", millis(c.HeartbeatInterval, 300*time.Millisecond)),
		arg("rebalance", millis(c.RebalanceTimeout, 20*time.Second)), arg("timeout", millis(c.TransactionTimeout, 10*time.Second)))
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
