package dlq

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// window is the time in which a Breaker counts.
const window = time.Minute

// Breaker refuses dead letters when there are too many of them: a deployment that fails every record
// would else empty its input into the dead-letter topic. It reads no clock. Its methods are safe for
// concurrent use; all partitions of a process share one.
type Breaker struct {
	limit int

	mu sync.Mutex
	// allowed has the times of the letters of the last minute, in order. It is never longer than limit
	// and holds what was really allowed, so that a large limit costs nothing until it is used.
	allowed []time.Time
}

// NewBreaker returns a Breaker that allows maxPerMinute letters within any minute, and
// DefaultMaxPerMinute if that is 0 or less.
func NewBreaker(maxPerMinute int) *Breaker {
	if maxPerMinute <= 0 {
		maxPerMinute = DefaultMaxPerMinute
	}
	return &Breaker{limit: maxPerMinute}
}

// Allow counts a letter at the time now, or returns stream.ErrFlood with the counts and does not
// count it. now is time.Now() as it comes: its monotonic reading keeps a clock that is set from
// freeing or taking room.
func (b *Breaker) Allow(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := 0
	for old < len(b.allowed) && now.Sub(b.allowed[old]) >= window {
		old++
	}
	b.allowed = b.allowed[old:]
	if len(b.allowed) >= b.limit {
		return stream.NewError("dead-letter", fmt.Errorf("%w: this one would be number %d within a minute, and the policy allows %d",
			stream.ErrFlood, len(b.allowed)+1, b.limit)).
			Hinted("so many records rarely fail by their own fault: look at the last deployment, the schema and the reasons " +
				"in the dead-letter topic (holdfast dlq list); nothing past the record was committed. " +
				"If the records are to blame, raise DeadLetters.MaxPerMinute")
	}
	b.allowed = append(b.allowed, now)
	return nil
}
