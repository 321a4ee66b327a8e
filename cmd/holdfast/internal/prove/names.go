package prove

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// The last parts of the names. The leftovers of a run are recognised by them.
const (
	sendsTopic       = "sends"
	abortedTopic     = "aborted"
	fencingInput     = "fencing-input"
	fencingState     = "fencing-state"
	generationInput  = "generation-input"
	generationOutput = "generation-output"
	takeoverInput    = "takeover-input"
	takeoverOutput   = "takeover-output"

	fencingGroup    = "fencing"
	generationGroup = "generation"
	takeoverGroup   = "takeover"

	abortedID    = "aborted"
	generationID = "generation"
	takeoverID   = "takeover"
)

var topicEnds = []string{sendsTopic, abortedTopic, fencingInput, fencingState, generationInput, generationOutput, takeoverInput, takeoverOutput}
var groupEnds = []string{fencingGroup, generationGroup, takeoverGroup}

const (
	runLayout    = "20060102t150405"
	runRandom    = 6   // characters
	maxPrefix    = 180 // a topic's name may have 249, and the run id with the longest end takes 42
	validLetters = `^[a-zA-Z0-9._-]+$`
)

// newRun names a run: when it was, for whoever finds a leftover, and what no other run has.
func newRun(at time.Time) string {
	return at.UTC().Format(runLayout) + "-" + strings.ToLower(rand.Text()[:runRandom])
}

// name is that of a topic, a group or a transactional id of this run.
func name(prefix, run, end string) string { return prefix + run + "-" + end }

// writerIDs is what the transactional ids begin with that Holdfast's writer makes of the exercise's group, whose
// length is the same in each run, topic and partition. No flow has them whose group does not begin with the prefix.
func writerIDs(prefix string) string {
	group := name(prefix, newRun(time.Time{}), fencingGroup)
	return strings.TrimSuffix(fence.TransactionalID(group, "", 0), strings.TrimPrefix(group, prefix)+"--0")
}

// leftover matches the names that runs under a prefix give, and no others: whatever else begins with
// the prefix is not ours.
func leftover(prefix string, ends []string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(prefix) + `\d{8}t\d{6}-[a-z2-7]{6}-(` + strings.Join(ends, "|") + ")$")
}

// checkPrefix refuses what a topic's name cannot begin with.
func checkPrefix(prefix string) error {
	if ok, _ := regexp.MatchString(validLetters, prefix); !ok || len(prefix) > maxPrefix {
		return stream.NewError("prove", fmt.Errorf("%w: prefix %q is not 1 to %d letters, digits, dots, dashes and underscores",
			stream.ErrConfig, prefix, maxPrefix)).Hinted("--prefix holdfast-prove-")
	}
	return nil
}

// runOf returns the run in a name that leftover matches.
func runOf(prefix, n string) string { return n[len(prefix) : len(prefix)+len(runLayout)+1+runRandom] }

// begun returns when a run began; the zero time for digits that are no time.
func begun(run string) time.Time {
	at, err := time.Parse(runLayout, run[:len(runLayout)])
	if err != nil {
		return time.Time{}
	}
	return at
}
