package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/holdfast-go/holdfast/stream"
)

// HeaderKey is the name of the record header that holds what Holdfast needs beside the user's bytes.
const HeaderKey = stream.SnapshotHeader

// version1 is the first byte of a header of the format below. A change of the format takes another
// number, keeps this one readable, and adds golden files of its own.
//
//	version      1 byte
//	flags        1 byte: 1 deleted, 2 no state
//	applied      count, then applied offset + 1 of each input topic
//	steps        step counter
//	incarnation
//	timers       count, then name length, name, due (ms since 1970, zigzag)
//	firings      count, then step, name length, name, due (zigzag), at (zigzag)
//
// Counts, lengths and numbers are unsigned varints in their shortest form, so that one header has
// one encoding.
const version1 = 1

const (
	flagDeleted = 1 << iota
	flagNoState
	flagsKnown = flagDeleted | flagNoState
)

// The bounds of a header. They are far above any use and keep a damaged count from being allocated.
const (
	MaxInputs    = 1 << 10 // entries of the applied vector
	MaxTimers    = 1 << 16 // pending timers of a key
	MaxFirings   = 1 << 16 // firings between two snapshots of a key
	MaxTimerName = 1 << 10 // bytes of a timer's name
)

// Timer is one pending timer of a key.
type Timer struct {
	Name  string
	DueMs int64 // milliseconds since 1970, UTC
}

// Firing is one timer that fired since the snapshot before.
type Firing struct {
	Step  uint64 // the step counter after the firing, which places it among the key's steps
	Name  string
	DueMs int64 // milliseconds since 1970, UTC
	AtMs  int64 // the owner's clock when it fired, milliseconds since 1970, UTC
}

// Header is what a snapshot record carries beside the user's bytes.
type Header struct {
	Applied     []int64 // last offset folded of each input topic, in the flow's order; -1: none yet
	Steps       uint64  // steps applied to the key since it came to be
	Incarnation uint64  // raised by each rebuild; records of a lower one do not count
	Timers      []Timer // pending
	Firings     []Firing
}

var (
	errShort     = errors.New("header ends too early")
	errLong      = errors.New("header has bytes behind its end")
	errNotShort  = errors.New("a number is not in its shortest form")
	errTooMany   = errors.New("a count is over its bound")
	errBadOffset = errors.New("an applied offset is out of range")
)

// appendHeader appends the encoding of h. It fails on what the decoder would refuse.
func appendHeader(dst []byte, flags byte, h *Header) ([]byte, error) {
	if len(h.Applied) > MaxInputs || len(h.Timers) > MaxTimers || len(h.Firings) > MaxFirings {
		return nil, fmt.Errorf("%w: %d inputs (at most %d), %d timers (at most %d), %d firings (at most %d)", errTooMany,
			len(h.Applied), MaxInputs, len(h.Timers), MaxTimers, len(h.Firings), MaxFirings)
	}
	dst = append(dst, version1, flags)
	dst = binary.AppendUvarint(dst, uint64(len(h.Applied)))
	for _, a := range h.Applied {
		if a < -1 || a == math.MaxInt64 {
			return nil, fmt.Errorf("%w: %d", errBadOffset, a)
		}
		dst = binary.AppendUvarint(dst, uint64(a+1))
	}
	dst = binary.AppendUvarint(dst, h.Steps)
	dst = binary.AppendUvarint(dst, h.Incarnation)
	var err error
	dst = binary.AppendUvarint(dst, uint64(len(h.Timers)))
	for i := range h.Timers {
		if dst, err = appendName(dst, h.Timers[i].Name); err != nil {
			return nil, err
		}
		dst = binary.AppendVarint(dst, h.Timers[i].DueMs)
	}
	dst = binary.AppendUvarint(dst, uint64(len(h.Firings)))
	for i := range h.Firings {
		f := &h.Firings[i]
		dst = binary.AppendUvarint(dst, f.Step)
		if dst, err = appendName(dst, f.Name); err != nil {
			return nil, err
		}
		dst = binary.AppendVarint(dst, f.DueMs)
		dst = binary.AppendVarint(dst, f.AtMs)
	}
	return dst, nil
}

func appendName(dst []byte, name string) ([]byte, error) {
	if len(name) > MaxTimerName {
		return nil, fmt.Errorf("%w: a timer's name has %d bytes (at most %d)", errTooMany, len(name), MaxTimerName)
	}
	dst = binary.AppendUvarint(dst, uint64(len(name)))
	return append(dst, name...), nil
}

// decodeHeader is the exact inverse of appendHeader: whatever it accepts encodes to the same bytes.
func decodeHeader(b []byte) (flags byte, h Header, err error) {
	if len(b) == 0 {
		return 0, h, errShort
	}
	if b[0] != version1 {
		return 0, h, fmt.Errorf("format version %d is not known to this program, which reads version %d; "+
			"the record was written by a later one", b[0], version1)
	}
	if len(b) < 2 {
		return 0, h, errShort
	}
	flags = b[1]
	if flags&^flagsKnown != 0 || flags == flagDeleted|flagNoState {
		return 0, h, fmt.Errorf("flags %#x are not valid", flags)
	}
	d := decoder{rest: b[2:]}
	if n := d.count(MaxInputs, 1); n > 0 {
		h.Applied = make([]int64, n)
	}
	for i := range h.Applied {
		a := d.uvarint()
		if a > math.MaxInt64 {
			d.fail(errBadOffset)
		}
		h.Applied[i] = int64(a) - 1
	}
	h.Steps, h.Incarnation = d.uvarint(), d.uvarint()
	if n := d.count(MaxTimers, 2); n > 0 {
		h.Timers = make([]Timer, n)
	}
	for i := range h.Timers {
		h.Timers[i] = Timer{Name: d.name(), DueMs: d.varint()}
	}
	if n := d.count(MaxFirings, 4); n > 0 {
		h.Firings = make([]Firing, n)
	}
	for i := range h.Firings {
		h.Firings[i] = Firing{Step: d.uvarint(), Name: d.name(), DueMs: d.varint(), AtMs: d.varint()}
	}
	if d.err == nil && len(d.rest) > 0 {
		d.err = errLong
	}
	if d.err != nil {
		return 0, Header{}, d.err
	}
	return flags, h, nil
}

// decoder takes a header apart. After the first error it yields zeroes and keeps the error.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = nil
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	switch {
	case d.err != nil:
		return 0
	case n <= 0:
		d.fail(errShort)
		return 0
	case n > 1 && d.rest[n-1] == 0:
		d.fail(errNotShort)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// count reads a count. Each thing counted takes at least size bytes, so that a count that the rest
// of the header cannot hold is refused before anything is allocated for it.
func (d *decoder) count(most, size int) int {
	n := d.uvarint()
	if n > uint64(most) {
		d.fail(errTooMany)
		return 0
	}
	if int(n)*size > len(d.rest) {
		d.fail(errShort)
		return 0
	}
	return int(n)
}

func (d *decoder) name() string {
	n := d.count(MaxTimerName, 1)
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}
