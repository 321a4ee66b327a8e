package tail

import (
	"fmt"
	"strconv"
)

// Place is a place in a partition.
type Place struct {
	kind placeKind
	n    int64
}

type placeKind int

const (
	atOffset placeKind = iota
	atStart
	atEnd
	beforeEnd
)

// The places that have a name.
var (
	Start = Place{kind: atStart}
	End   = Place{kind: atEnd}
)

// BeforeEnd is the place n offsets before the end.
func BeforeEnd(n int64) Place { return Place{kind: beforeEnd, n: n} }

// ParsePlace reads an offset, "start", "end", or "-N" for N offsets before the end.
func ParsePlace(text string) (Place, error) {
	switch text {
	case "start":
		return Start, nil
	case "end":
		return End, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return Place{}, fmt.Errorf("%q is neither an offset nor start, end or -N", text)
	}
	if text[0] == '-' {
		return BeforeEnd(-n), nil
	}
	return Place{n: n}, nil
}

// Absolute reports whether it is an offset, which means something in one partition only.
func (p Place) Absolute() bool { return p.kind == atOffset }

// ends are where a partition's log begins and ends.
type ends struct {
	start, highWatermark, lastStable int64
}

func (e ends) String() string {
	if e.start == e.highWatermark {
		return fmt.Sprintf("the log is empty and ends at %d", e.start)
	}
	return fmt.Sprintf("the log has offsets from %d up to its end at %d", e.start, e.highWatermark)
}

// end is where a reader of the isolation level stops.
func (e ends) end(committed bool) int64 {
	if committed {
		return e.lastStable
	}
	return e.highWatermark
}

// resolve returns the offset of a place, for a reader that stops at end.
func (e ends) resolve(p Place, end int64) (int64, error) {
	switch p.kind {
	case atStart:
		return e.start, nil
	case atEnd:
		return end, nil
	case beforeEnd:
		return max(e.start, end-p.n), nil
	}
	if p.n < e.start || p.n > e.highWatermark {
		return 0, fmt.Errorf("offset %d is out of range: %s", p.n, e)
	}
	return p.n, nil
}
