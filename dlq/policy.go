package dlq

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// The defaults of a Policy.
const (
	DefaultAttempts     = 3
	DefaultMaxPerMinute = 60
	DefaultMaxShare     = 0.01
	DefaultRestartDelay = time.Minute
)

// Policy says where dead letters go and how many there may be. It holds no state: one value may be
// given to several components.
type Policy struct {
	// Topic is the dead-letter topic. Required. It must exist: a component that cannot write to it
	// stops, and the offset does not pass the record. It needs MaxOverhead bytes more than the inputs
	// in max.message.bytes: a record that it does not take is left out, and its letter says where it stands.
	// It must not be compacted. A letter has its record's timestamp, unless the topic's limits refuse it, from which retention.ms counts: where records can be older than
	// the topic's retention when they fail, their letters are deleted at once. Set retention.ms=-1, or
	// message.timestamp.type=LogAppendTime, which gives up the timestamps.
	Topic string
	// Attempts is how often in all a record may fail before stream.RetryThenDeadLetter dead-letters
	// it: 1 does not retry. Default: DefaultAttempts.
	Attempts int
	// Backoff is the pause after the attempt-th failure of a record, counted from 1. It must be safe
	// for concurrent use. Default: 100 ms, doubling up to 30 s.
	Backoff func(attempt int) time.Duration
	// MaxPerMinute and MaxShare bound the letters of a process: where there would be more than
	// MaxPerMinute within any minute, and these are more than MaxShare of the records that were processed
	// in it, the component stops with stream.ErrFlood, since that many records that fail are rarely the
	// records' fault. Letters of the last minute that stand in the topic from an earlier run count too, if
	// the component may read it (see Breaker). Defaults: DefaultMaxPerMinute, and DefaultMaxShare. A
	// MaxShare of 1 never stops it.
	MaxPerMinute int
	MaxShare     float64
	// RestartDelay is how long Run waits after stream.ErrFlood before it returns, so that what starts it again
	// does not do so in a tight loop. The group is left before, and the end of Run's context ends the wait.
	// Default: one minute. Negative: none.
	RestartDelay time.Duration
}

// WithDefaults returns p with its zero fields set to the defaults. Topic has none.
func (p Policy) WithDefaults() Policy {
	if p.Attempts == 0 {
		p.Attempts = DefaultAttempts
	}
	if p.Backoff == nil {
		p.Backoff = backoff
	}
	if p.MaxPerMinute == 0 {
		p.MaxPerMinute = DefaultMaxPerMinute
	}
	if p.MaxShare == 0 {
		p.MaxShare = DefaultMaxShare
	}
	if p.RestartDelay == 0 {
		p.RestartDelay = DefaultRestartDelay
	}
	return p
}

// Validate returns stream.ErrConfig with every fault of p, or nil. Zero fields that have a default
// are no fault.
func (p Policy) Validate() error {
	var errs []error
	switch {
	case p.Topic == "":
		errs = append(errs, fault("DeadLetters.Topic is empty", "name the dead-letter topic"))
	case !wire.TopicName(p.Topic):
		errs = append(errs, fault(fmt.Sprintf("DeadLetters.Topic is %q", p.Topic),
			wire.TopicNameHint))
	}
	if p.Attempts < 0 {
		errs = append(errs, fault(fmt.Sprintf("DeadLetters.Attempts is %d", p.Attempts),
			"give how often a record may fail in all, 1 or more, or 0 for the default"))
	}
	if p.MaxPerMinute < 0 {
		errs = append(errs, fault(fmt.Sprintf("DeadLetters.MaxPerMinute is %d", p.MaxPerMinute),
			"give 1 or more, or 0 for the default; a very large number never stops the component"))
	}
	if !(p.MaxShare >= 0 && p.MaxShare <= 1) { // NaN too
		errs = append(errs, fault(fmt.Sprintf("DeadLetters.MaxShare is %v", p.MaxShare),
			"give a share of the records from 0 to 1, as 0.05 for one in twenty, or 0 for the default; 1 never stops the component"))
	}
	return errors.Join(errs...)
}

func fault(what, hint string) error {
	return stream.NewError("dead-letter policy", fmt.Errorf("%w: %s", stream.ErrConfig, what)).Hinted("%s", hint)
}

const (
	backoffMin = 100 * time.Millisecond
	backoffMax = 30 * time.Second
)

// backoff doubles from backoffMin to backoffMax. It stops shifting before the shift overflows.
func backoff(attempt int) time.Duration {
	const doublings = 9 // 100 ms << 9 is above backoffMax
	if attempt > doublings {
		return backoffMax
	}
	return min(backoffMin<<max(attempt-1, 0), backoffMax)
}
