package engine

import "fmt"

// Invariant is the value of the panic that is raised when something that must always hold does
// not. It is a bug of this package or of its caller, never of a user's fold or of a broker. The
// partition's memory must not be used any further: drop it without committing, and restore.
type Invariant struct {
	Name   string // which one, as "offsets-rise"
	Detail string
}

// The names of the invariants.
const (
	OffsetsRise     = "offsets-rise"      // records come in strictly rising offset order
	AppliedRises    = "applied-rises"     // the applied offset of a key, as written, never falls
	CommittedRises  = "committed-rises"   // the committed offset never falls
	OneBatch        = "one-batch"         // one batch is in flight at most, and outcomes are told once
	StartOnce       = "start-once"        // Load, then Start once, then everything else
	TombstoneClean  = "tombstone-clean"   // a tombstone replaces a committed deletion and nothing newer
	WholeBatches    = "whole-batches"     // with Whole a batch has all that was folded before its offset
	TaintedIsUnused = "tainted-is-unused" // no step after a step that spoiled a state
)

func (i Invariant) Error() string { return "invariant " + i.Name + " broken: " + i.Detail }

// violated panics with an Invariant. Callers test the condition themselves, so that the arguments
// cost nothing on the path of a record.
func violated(name, format string, args ...any) {
	panic(Invariant{Name: name, Detail: fmt.Sprintf(format, args...)})
}
