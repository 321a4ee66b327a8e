package tail

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/stamp"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/intake"
	"github.com/holdfast-go/holdfast/internal/visible"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// timeLayout is of one width, which lines the columns up.
const timeLayout = "2006-01-02T15:04:05.000Z"

const (
	Yellow = "\x1b[33m" // of a terminal, which the command has to let through
	red    = "\x1b[31m"
	reset  = "\x1b[0m"
)

// author is who wrote an entry, as far as it is known.
type author struct {
	id   string // transactional id; "": unknown, or none
	pid  int64  // -1: no idempotent producer
	term int16  // producer epoch
}

func (a author) String() string {
	if a.pid < 0 || a.id == "" {
		return a.short()
	}
	return fmt.Sprintf("%s (%s)", visible.Name(a.id), a.short())
}

// short is the author without the transactional id, which is long and the same in many lines.
func (a author) short() string {
	if a.pid < 0 {
		return "-"
	}
	return fmt.Sprintf("pid %d epoch %d", a.pid, a.term)
}

// legend says whose the producer id is.
func (a author) legend() string { return fmt.Sprintf("pid %d is %s", a.pid, visible.Name(a.id)) }

// line is what is shown of an entry, and nothing else of it: lines are held back until their columns are known.
type line struct {
	where, when, by string
	status          wire.Status
	what            string // what comes behind the columns
}

// line is what is shown of an entry.
func (c Config) line(e wire.Entry, by author) line {
	r := e.Record
	return line{where: place(r), when: stamp.Of(wire.Time(r.Timestamp)).Format(timeLayout), by: by.short(), status: e.Status, what: c.what(e)}
}

func (c Config) what(e wire.Entry) (text string) {
	r := e.Record
	if e.Status.Control() {
		return fmt.Sprintf("  coordinator epoch %d", e.CoordinatorEpoch)
	}
	if refusal, ok := intake.Refused(r); ok {
		return "  not read: " + refusal.String()
	}
	if told, ok := c.progress(r); ok {
		return "  " + told
	}
	if c.Keys != None {
		text = "  " + c.Keys.text(r.Key, c.Cut)
	}
	if c.Values != None {
		text += "  " + c.Values.text(r.Value, c.Cut)
	}
	return text
}

// textLine is an entry on a line.
func (c Config) textLine(l line, widths *widths) string {
	status := fmt.Sprintf("%-13s", l.status)
	if c.Color {
		status = colored(l.status, status)
	}
	return fmt.Sprintf("%-*s  %-*s  %s  %-*s%s", widths.where(l.where), l.where, len(timeLayout), l.when, status, widths.by(l.by), l.by, l.what)
}

// progress says what Holdfast's own record in a snapshot topic has, whose bytes say nothing to a person.
// A record of somebody else's with the same key is shown as it is, as are bytes that were asked for.
func (c Config) progress(r *kgo.Record) (told string, ok bool) {
	if c.Keys != Text || c.Values == Hex || !fence.IsProgressKey(r.Key) {
		return "", false
	}
	p, err := fence.DecodeProgress(r.Value)
	if err != nil {
		return "", false
	}
	told = "progress record"
	if c.Values == None {
		return told, true
	}
	for _, in := range p.Inputs {
		told += fmt.Sprintf("  next offset of %s: %d", visible.Name(in.Topic), in.Next)
	}
	return told, true
}

func place(r *kgo.Record) string { return fmt.Sprintf("%d/%d", r.Partition, r.Offset) }

// heading names the columns of textLine.
func (c Config) heading(widths *widths) string {
	line := fmt.Sprintf("%-*s  %-*s  %-13s  %-*s", widths.where("PART/OFFSET"), "PART/OFFSET", len(timeLayout), "TIME (UTC)",
		"STATUS", widths.by("WRITTEN BY"), "WRITTEN BY")
	if c.Keys != None {
		line += "  KEY"
	}
	if c.Values != None {
		line += "  VALUE"
	}
	return line
}

func colored(s wire.Status, text string) string {
	switch s {
	case wire.StatusAborted, wire.StatusAbortMarker:
		return red + text + reset
	case wire.StatusOpen:
		return Yellow + text + reset
	}
	return text
}

// widths are the columns whose width depends on what comes: they grow and never shrink.
type widths struct{ place, author int }

func (w *widths) where(text string) int { w.place = max(w.place, len(text)); return w.place }
func (w *widths) by(text string) int {
	w.author = max(w.author, utf8.RuneCountInString(text))
	return w.author
}

func (w *widths) fit(l line) {
	w.where(l.where)
	w.by(l.by)
}

// text shows bytes on a terminal.
func (f Format) text(b []byte, cut int) string {
	if b == nil {
		return "null"
	}
	shown, more := b, ""
	if cut > 0 && len(b) > cut {
		shown = b[:cut]
		for len(shown) > max(0, cut-utf8.UTFMax+1) && !utf8.RuneStart(b[len(shown)]) {
			shown = shown[:len(shown)-1] // not in the middle of a character
		}
		more = fmt.Sprintf("… (%d bytes)", len(b))
	}
	if f == Hex {
		return "0x" + hex.EncodeToString(shown) + more
	}
	return strconv.Quote(string(shown)) + more
}

// object is an entry as one JSON object. Bytes that are not UTF-8 come under another name, in base64.
type object struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	stamp.Stamp
	Status           string   `json:"status"`
	Stable           bool     `json:"stable"` // below the last stable offset
	ProducerID       *int64   `json:"producer_id,omitempty"`
	ProducerEpoch    *int16   `json:"producer_epoch,omitempty"`
	TransactionalID  string   `json:"transactional_id,omitempty"`
	CoordinatorEpoch *int32   `json:"coordinator_epoch,omitempty"`
	LeaderEpoch      int32    `json:"leader_epoch"`
	Key              any      `json:"key,omitzero"`
	KeyBase64        []byte   `json:"key_base64,omitempty"`
	KeyHex           string   `json:"key_hex,omitempty"`
	Value            any      `json:"value,omitzero"`
	ValueBase64      []byte   `json:"value_base64,omitempty"`
	ValueHex         string   `json:"value_hex,omitempty"`
	Headers          []header `json:"headers,omitempty"`
	NotRead          string   `json:"not_read,omitempty"` // why there is neither key nor value
}

type header struct {
	Key         string `json:"key"`
	Value       any    `json:"value,omitzero"`
	ValueBase64 []byte `json:"value_base64,omitempty"`
}

// jsonLine is an entry as a line of JSON.
func (c Config) jsonLine(e wire.Entry, by author) ([]byte, error) {
	r := e.Record
	o := object{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Status: string(e.Status), Stable: e.Stable,
		TransactionalID: by.id, LeaderEpoch: r.LeaderEpoch}
	o.Stamp = stamp.Of(wire.Time(r.Timestamp))
	if by.pid >= 0 {
		o.ProducerID, o.ProducerEpoch = &by.pid, &by.term
	}
	if e.Status.Control() {
		o.CoordinatorEpoch = &e.CoordinatorEpoch
		return json.Marshal(o)
	}
	if refusal, ok := intake.Refused(r); ok {
		o.NotRead = refusal.String()
		return json.Marshal(o)
	}
	o.Key, o.KeyBase64, o.KeyHex = c.Keys.json(r.Key)
	o.Value, o.ValueBase64, o.ValueHex = c.Values.json(r.Value)
	if c.Values != None {
		o.Headers = headers(r)
	}
	return json.Marshal(o)
}

func headers(r *kgo.Record) (all []header) {
	for _, h := range r.Headers {
		value, raw, _ := Text.json(h.Value)
		all = append(all, header{Key: h.Key, Value: value, ValueBase64: raw})
	}
	return all
}

// json returns which of three fields have the bytes. A null is a nil *string, which is encoded as null
// and, other than a nil any, not left out.
func (f Format) json(b []byte) (text any, raw []byte, inHex string) {
	switch {
	case f == None:
		return nil, nil, ""
	case b == nil:
		return (*string)(nil), nil, ""
	case f == Hex && len(b) > 0:
		return nil, nil, hex.EncodeToString(b)
	case utf8.Valid(b):
		return string(b), nil, ""
	}
	return nil, b, ""
}
