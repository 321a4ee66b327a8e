package dlq

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// Takes is what a dead-letter topic takes, as far as it is known. The zero value bounds nothing.
type Takes struct {
	Bytes int // max.message.bytes; 0: not known
	// Before and After are how far a timestamp may be from the broker's clock
	// (message.timestamp.before.max.ms and .after.max.ms); 0: no limit is known.
	Before, After time.Duration
	AppendTime    bool // the topic has its own timestamps (message.timestamp.type=LogAppendTime)
}

// stamp returns the timestamp of a letter for a record of the time own, and what tells of that time if it is
// another one.
func (c Cause) stamp(own time.Time) (at time.Time, told string) {
	keeps := stream.Carried(own) && c.Without < Timestamp && c.Takes.time(own, c.Now)
	if keeps && !c.Takes.AppendTime {
		return own, ""
	}
	told = strconv.FormatInt(own.UnixMilli(), 10)
	if keeps {
		return own, told
	}
	return c.Now, told
}

// time reports whether the topic takes a timestamp. Kafka takes the one that means none, -1, from anybody.
func (t Takes) time(at, now time.Time) bool {
	if t.AppendTime || now.IsZero() || at.UnixMilli() == -1 {
		return true
	}
	return (t.Before <= 0 || now.Sub(at) <= t.Before) && (t.After <= 0 || at.Sub(now) <= t.After)
}
