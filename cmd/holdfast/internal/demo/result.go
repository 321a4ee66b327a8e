package demo

import (
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/kafka"
)

// Result is the verdict of a run: what --json prints.
type Result struct {
	Events    int    `json:"events"`    // events in the input
	Keys      int    `json:"keys"`      // keys that were compared
	Takeovers int    `json:"takeovers"` // partitions that a process took over from another one; without the fence nothing counts them
	Refused   int    `json:"refused"`   // answers by which a broker refused a write of a stopped, killed or expelled process
	Lost      int    `json:"lost"`      // events that are not in the state, or whose output never came
	Repeated  int    `json:"repeated"`  // events that were folded twice into it
	Seed      uint64 `json:"seed"`
	OK        bool   `json:"ok"`
}

// Details are what people are told besides.
type Details struct {
	Audit    audit.Report
	Refusals map[string]int // those of Result.Refused, by request and error
	// Rightful are refusals of members that were alive and in their group: an answer to what was on its
	// way as the group rebalanced. The member sends the same again or lets go; nothing is shown by them.
	Rightful map[string]int
	Claims   []claim.Claim
	Stopped  []string // members that stopped by themselves, and why
	Took     time.Duration
	Where    string
	Schedule Schedule
}

// Options say what to run.
type Options struct {
	Member   func(brokers []string) []string // command line of a member process for a cluster
	Seed     uint64
	Events   int    // make at least so many
	Pace     int    // events a second
	Keep     string // directory of the embedded broker; "": a temporary one
	Schedule Schedule
	Without  []rule.Name // rules that are switched off
	Display  Display
	Kafka    *kafka.Config // nil: an embedded broker
	Logger   *slog.Logger
	Log      io.Writer // gets what members write to standard error; nil: shown only if one fails
}

// Display is told what happens. Its methods are called from one goroutine at a time.
type Display interface {
	Note(line string)
	Progress(Progress)
}

// Progress is how far a run has come.
type Progress struct {
	Made, Wanted, Folded int
	Takeovers, Refused   int    // Refused as in Result
	Members              string // who holds how many partitions
}
