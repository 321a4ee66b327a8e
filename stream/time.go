package stream

import (
	"math"
	"time"
)

// The times that the Kafka client can carry: it counts nanoseconds in 64 bits.
var (
	firstCarried = time.UnixMilli(math.MinInt64/1_000_000 + 1)
	lastCarried  = time.UnixMilli(math.MaxInt64/1_000_000 - 1)
)

// Carried reports whether t can be the timestamp of a Message: it is in the years 1678 to 2261. A
// Record may have another one, since a timestamp in Kafka is any number of milliseconds.
func Carried(t time.Time) bool { return !t.Before(firstCarried) && !t.After(lastCarried) }
