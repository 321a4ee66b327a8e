package dlq

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// Rule is one line of Classes: which failures it is for, and what happens to their records. On,
// OnPanic, OnMatch and Otherwise make one.
type Rule struct {
	match     func(*stream.RecordError) bool
	action    stream.Action
	otherwise bool
}

// On is a rule for errors that are target, as errors.Is has it. It panics if target is nil.
func On(target error, a stream.Action) Rule {
	if target == nil {
		panic("dlq.On: target is nil, which matches nothing")
	}
	return rule(func(e *stream.RecordError) bool { return errors.Is(e.Err, target) }, a)
}

// OnPanic is a rule for functions that panicked.
func OnPanic(a stream.Action) Rule {
	return rule(func(e *stream.RecordError) bool { return e.Panicked }, a)
}

// OnMatch is a rule for failures that match answers true for, such as those of one topic or of one
// error type. match must be safe for concurrent use. It panics if match is nil.
func OnMatch(match func(*stream.RecordError) bool, a stream.Action) Rule {
	if match == nil {
		panic("dlq.OnMatch: match is nil")
	}
	return rule(match, a)
}

// Otherwise is the rule for all other failures, and the last one. Without it they stop the partition.
func Otherwise(a stream.Action) Rule {
	r := rule(func(*stream.RecordError) bool { return true }, a)
	r.otherwise = true
	return r
}

func rule(match func(*stream.RecordError) bool, a stream.Action) Rule {
	if a < stream.Stop || a > stream.RetryThenDeadLetter {
		panic(fmt.Sprintf("dlq: %v is no action", a))
	}
	return Rule{match: match, action: a}
}

// Classes returns an OnError that asks the rules in their order: the first one that matches says what
// happens. If none does, the partition stops. Whatever the rules say, the action goes through Decide,
// so that no failure of the infrastructure becomes a dead letter. The function is safe for concurrent
// use if the rules' match functions are.
//
// Classes panics on a Rule that On, OnPanic, OnMatch or Otherwise did not make, and on one that
// stands behind Otherwise and could never match.
func Classes(rules ...Rule) func(context.Context, *stream.RecordError) stream.Action {
	rules = append([]Rule(nil), rules...)
	for i, r := range rules {
		if r.match == nil {
			panic(fmt.Sprintf("dlq.Classes: rule %d is the zero Rule", i))
		}
		if r.otherwise && i < len(rules)-1 {
			panic(fmt.Sprintf("dlq.Classes: rule %d stands behind Otherwise and would never match", i+1))
		}
	}
	return func(_ context.Context, e *stream.RecordError) stream.Action {
		for _, r := range rules {
			if r.match(e) {
				return Decide(r.action, e)
			}
		}
		return stream.Stop
	}
}

// Decide returns what may happen to the record of e when its error policy asks for want. It is want,
// unless e is a failure of the infrastructure and not of the record: brokers that cannot be reached or
// refuse, a lost ownership, a wrong configuration, an ended context, any answer of a broker that is not
// about one record. The record is good then, and so are all those behind it: skipping or
// dead-lettering them would empty the input into the dead-letter topic. In place of
//
//   - Skip and DeadLetter comes Stop;
//   - RetryThenDeadLetter comes Retry if the failure can pass by itself (no broker answers, a deadline,
//     a broker's answer that asks to try again), and Stop if it cannot.
//
// Errors of other systems that a function calls, such as a database, are not recognised unless they
// are deadlines: name them in the rules.
func Decide(want stream.Action, e *stream.RecordError) stream.Action {
	if want == stream.Stop || want == stream.Retry {
		return want
	}
	switch cause(e.Err) {
	case fromRecord:
		return want
	case passing:
		if want == stream.RetryThenDeadLetter {
			return stream.Retry
		}
	}
	return stream.Stop
}

// blame is whose fault an error is.
type blame int

const (
	fromRecord blame = iota
	passing          // the infrastructure's, and it may be well again without anybody's doing
	lasting          // the infrastructure's, and somebody has to mend it
)

// lastingErrors are the sentinels that never tell about one record. Those left out can: ErrNoKey,
// ErrFold, ErrEncode, ErrTooLarge and ErrOutput.
var lastingErrors = [...]error{
	stream.ErrConfig, stream.ErrReservedOption, stream.ErrTopic, stream.ErrNotAuthenticated, stream.ErrNotAuthorized,
	stream.ErrBrokerTooOld, stream.ErrBrokerDoesNotFence, stream.ErrOwnershipLost, stream.ErrIDTaken, stream.ErrOutcomeUnknown, stream.ErrNoOffset,
	stream.ErrOffsetBack, stream.ErrClosed, stream.ErrRestoreStalled, stream.ErrTruncated, stream.ErrOffsetMismatch, stream.ErrSnapshotsLost,
	stream.ErrOtherComponent, stream.ErrOtherApplication, stream.ErrFlood, stream.ErrOtherGroup, stream.ErrOtherProtocol, stream.ErrInstanceTaken, stream.ErrGroupFull, stream.ErrInputChanged, stream.ErrFoldVersion,
	stream.ErrCorruptSnapshot, stream.ErrUndeclaredOutput, context.Canceled, kgo.ErrClientClosed,
}

// recordErrors are the broker's answers that are about one record.
var recordErrors = [...]error{
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp,
}

func cause(err error) blame {
	for _, s := range lastingErrors {
		if errors.Is(err, s) {
			return lasting
		}
	}
	if errors.Is(err, stream.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
		return passing
	}
	var answer *kerr.Error
	if !errors.As(err, &answer) {
		return fromRecord
	}
	for _, s := range recordErrors {
		if errors.Is(err, s) {
			return fromRecord
		}
	}
	if answer.Retriable {
		return passing
	}
	return lasting
}
