// Package stamp is how the commands show the timestamp of a record.
package stamp

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// Stamp is a timestamp of a record as it is shown.
type Stamp struct {
	Time *time.Time `json:"timestamp,omitempty"` // nil: there is none, or it is no plausible one
	// Milliseconds is the number in the record if that is no plausible time: one of seconds or of microseconds, or
	// somebody's who means harm.
	Milliseconds *int64 `json:"timestamp_ms,omitempty"`
}

// Of makes a Stamp. A plausible time is one from 1970 on that the client can carry.
func Of(t time.Time) Stamp {
	ms := t.UnixMilli()
	switch {
	case ms == -1: // Kafka's word for none
		return Stamp{}
	case ms < 0 || !stream.Carried(t):
		return Stamp{Milliseconds: &ms}
	}
	t = t.UTC()
	return Stamp{Time: &t}
}

// Format returns the time in a layout, the number with its unit, or "-".
func (s Stamp) Format(layout string) string {
	switch {
	case s.Time != nil:
		return s.Time.Format(layout)
	case s.Milliseconds != nil:
		return fmt.Sprintf("%d ms", *s.Milliseconds)
	}
	return "-"
}
