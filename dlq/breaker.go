package dlq

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// window is the time in which a Breaker counts.
const window = time.Minute

// slots are the seconds of a window, and the one that has begun before it.
const slots = int64(window/time.Second) + 1

// Breaker refuses dead letters when there are too many of them: a deployment that fails every record
// would else empty its input into the dead-letter topic. It reads no clock. Its methods are safe for
// concurrent use; all partitions of a process share one.
//
// It counts in whole seconds, so that a letter counts for a minute, and for up to a second more. A component
// that may read its dead-letter topic tells it with Recall which letters an earlier run has written, which
// bounds a crash loop too.
type Breaker struct {
	limit int
	share float64

	mu      sync.Mutex
	began   time.Time // the first time it was told; the seconds count from it
	seconds [slots]second
}

// second is what was counted in one second of the window.
type second struct {
	number           int64
	letters, records int64
}

// NewBreaker returns a Breaker with the MaxPerMinute and the MaxShare of p, and the defaults of those that are not set.
func NewBreaker(p Policy) *Breaker {
	p = p.WithDefaults()
	return &Breaker{limit: max(p.MaxPerMinute, 1), share: p.MaxShare}
}

// at returns the slot of a time that is age ago.
func (b *Breaker) at(now time.Time, age time.Duration) *second {
	if b.began.IsZero() {
		b.began = now.Add(-window) // what is recalled is not before it
	}
	n := int64((now.Sub(b.began) - age) / time.Second)
	s := &b.seconds[((n%slots)+slots)%slots]
	if s.number != n {
		*s = second{number: n}
	}
	return s
}

// sums returns what the window has.
func (b *Breaker) sums(now time.Time) (letters, records int64) {
	newest := b.at(now, 0).number
	for _, s := range b.seconds {
		if s.number > newest-slots {
			letters += s.letters
			records += s.records
		}
	}
	return letters, records
}

// Passed counts n records that were processed, whatever came of them. Those that are not counted yet make the
// share of letters look larger than it is.
func (b *Breaker) Passed(now time.Time, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at(now, 0).records += n
}

// Recall counts a letter that was written at an earlier time, if that was within the last minute, and the records
// that were processed for it since the one before; it reports whether it did. A time that is to come is that of a
// clock that is ahead: it is now. Letters of one record count once: the caller recalls one of them, and does not ask
// Allow about that record again.
func (b *Breaker) Recall(now, written time.Time, records int64) bool {
	age := max(now.Sub(written), 0)
	if age >= window {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.at(now, age)
	s.letters++
	s.records += records
	return true
}

// Allow counts a letter at the time now, or returns stream.ErrFlood with the counts and does not
// count it. now is time.Now() as it comes: its monotonic reading keeps a clock that is set from
// freeing or taking room.
func (b *Breaker) Allow(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	letters, records := b.sums(now)
	letters++
	records = max(records, letters)
	if letters > int64(b.limit) && float64(letters) > b.share*float64(records) {
		return stream.NewError("dead-letter", fmt.Errorf("%w: this one would be number %d within a minute of %d records, and the policy allows %d, "+
			"or %g of the records where that is more", stream.ErrFlood, letters, records, b.limit, b.share)).
			Hinted("so many records rarely fail by their own fault: look at the last deployment, the schema and the reasons "+
				"in the dead-letter topic (holdfast dlq list); nothing past the record was committed. "+
				"If the records are to blame, raise DeadLetters.MaxPerMinute above %d, or DeadLetters.MaxShare above %.2g (1: never stop)",
				b.limit, float64(letters)/float64(records))
	}
	b.at(now, 0).letters++
	return nil
}
