package letters

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/stamp"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Filter says which letters of a dead-letter topic are meant. The zero values of all but Kafka and Topic
// mean all of them.
type Filter struct {
	Kafka    kafka.Config
	Topic    string
	Patience time.Duration // how long brokers may fail to answer

	Partitions  []int32 // of the dead-letter topic
	From, To    int64   // offsets of the dead-letter topic; To is the first one left out
	OriginTopic string
	Reason      string // is contained in the reason
	Limit       int    // the first so many
	// Newest leaves out all letters of a record but the one with the highest attempt, and of those the
	// one that is read last.
	Newest bool
}

// Place is where a letter stands in its topic.
type Place struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// String returns "partition:offset", which is how a letter is named to the command.
func (p Place) String() string { return fmt.Sprintf("%d:%d", p.Partition, p.Offset) }

// Origin is dlq.Origin as it is printed.
type Origin struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id,omitempty"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func originOf(o dlq.Origin) *Origin {
	p := &Origin{Topic: o.Topic, Partition: o.Partition, Offset: o.Offset}
	if o.TopicID != ([16]byte{}) {
		p.TopicID = base64.RawURLEncoding.EncodeToString(o.TopicID[:])
	}
	return p
}

// String returns "topic/partition/offset".
func (o Origin) String() string { return fmt.Sprintf("%s/%d/%d", o.Topic, o.Partition, o.Offset) }

// Row is what is known about a letter without its payload.
type Row struct {
	Place
	stamp.Stamp         // the record's own
	Family      string  `json:"family"` // "unknown" if there is none
	Origin      *Origin `json:"origin,omitempty"`
	FailedAt    *Origin `json:"failed_at,omitempty"` // only where it is not the origin
	Attempt     int     `json:"attempt,omitempty"`
	Reason      string  `json:"reason,omitempty"`
	Class       string  `json:"class,omitempty"`
	Stage       string  `json:"stage,omitempty"`
	Group       string  `json:"group,omitempty"`
	AppVersion  string  `json:"app_version,omitempty"`
	Changed     string  `json:"changed,omitempty"` // what of the record the letter has not as it was
	Fault       string  `json:"fault,omitempty"`   // why the origin cannot be read
	Repeats     int     `json:"repeats,omitempty"` // letters of the same record that are left out for this one

	origin, failed dlq.Origin
	whole          bool // the letter has key, value and headers of its record
	hash           int  // of the record's key, as Kafka's partitioner takes it; -1: it has none
}

// unknown is the Family of a row without the headers of any.
const unknown = "unknown"

// RowOf makes the row of a letter.
func RowOf(l dlq.Letter) Row {
	r := Row{
		Place: Place{l.Record.Partition, l.Record.Offset}, Stamp: stamp.Of(l.Timestamp), Family: string(l.Family),
		Attempt: l.Attempt, Reason: bound(l.Reason), Class: bound(l.Class), Stage: bound(l.Stage), Group: bound(l.Group),
		AppVersion: bound(l.AppVersion), Changed: bound(l.Changed), origin: l.Origin, failed: l.FailedAt, whole: !l.Reduced(), hash: hashOf(l.Record.Key),
	}
	if l.Family == dlq.Unknown {
		r.Family = unknown
	}
	if l.Fault != nil {
		r.Fault = bound(l.Fault.Error())
		return r
	}
	r.Origin = originOf(l.Origin)
	if at := l.FailedAt; at.Topic != l.Origin.Topic || at.Partition != l.Origin.Partition || at.Offset != l.Origin.Offset {
		r.FailedAt = originOf(at)
	}
	return r
}

// bound copies a text of a stranger and cuts it: rows of a large topic are all in memory, and a text
// that shares memory with its record would keep the whole record there.
func bound(s string) string {
	return strings.ToValidUTF8(strings.Clone(s[:min(len(s), dlq.MaxReason)]), "\uFFFD")
}

// maxRows bounds what all rows take together, in bytes: a few hundred thousand of the product's own letters, and far
// fewer where somebody has filled their headers.
const maxRows = 96 << 20

// size is about what a row takes in memory.
func (r Row) size() int {
	return 512 + len(r.Reason) + len(r.Class) + len(r.Stage) + len(r.Group) + len(r.AppVersion) + len(r.Fault)
}

// matches reports whether the letter is meant. One without an origin is, unless it was asked for
// something that it does not tell.
func (f Filter) matches(l dlq.Letter) bool {
	if l.Fault != nil {
		return f.OriginTopic == "" && f.Reason == ""
	}
	return (f.OriginTopic == "" || l.Origin.Topic == f.OriginTopic) && strings.Contains(l.Reason, f.Reason)
}

// Rows returns the letters that are meant, in the order of their places.
func (f Filter) Rows(ctx context.Context) ([]Row, error) {
	var rows []Row
	size := 0
	at := map[dlq.Identity]int{} // where in rows the letter of a record is
	gone := map[int]bool{}       // rows that a newer letter has replaced
	for l, err := range f.read(ctx) {
		if err != nil {
			return nil, err
		}
		if !f.matches(l) {
			continue
		}
		row := RowOf(l)
		if f.Newest {
			if i, ok := at[l.Identity()]; ok {
				if row.Attempt < rows[i].Attempt {
					rows[i].Repeats++
					continue
				}
				row.Repeats = rows[i].Repeats + 1
				gone[i] = true
			}
			at[l.Identity()] = len(rows)
		}
		if size += row.size(); size > maxRows {
			return nil, stream.NewError("read dead letters", fmt.Errorf("%w: the first %d letters have %d MiB of headers", stream.ErrTooLarge, len(rows), maxRows>>20)).
				At(stream.Partition{Topic: f.Topic, Partition: l.Record.Partition}, l.Record.Offset).
				Hinted("take fewer at once, by --limit or --partition, and go on by --from")
		}
		rows = append(rows, row)
		// With Newest a later letter may still replace one of the first.
		if !f.Newest && f.Limit > 0 && len(rows) == f.Limit {
			break
		}
	}
	kept := rows[:0]
	for i, r := range rows {
		if !gone[i] {
			kept = append(kept, r)
		}
	}
	if f.Limit > 0 {
		kept = kept[:min(f.Limit, len(kept))]
	}
	return kept, nil
}

func (f Filter) read(ctx context.Context) func(func(dlq.Letter, error) bool) {
	return dlq.Read(ctx, dlq.ReadConfig{Kafka: f.Kafka, Topic: f.Topic, Partitions: f.Partitions,
		From: f.From, To: f.To, Patience: f.Patience})
}

// ErrNoLetter: there is no letter at the place that was named.
var ErrNoLetter = errors.New("there is no letter")

// One returns the letter at a place. It may be none: a marker of a transaction, a letter that was
// aborted, deleted or not written yet; that is ErrNoLetter, which says which of them and names the nearest
// letter.
func (f Filter) One(ctx context.Context, p Place) (dlq.Letter, error) {
	f.Partitions, f.From, f.To = []int32{p.Partition}, p.Offset, p.Offset+1
	for l, err := range f.read(ctx) {
		if err != nil || l.Record.Offset == p.Offset {
			return l, err
		}
	}
	return dlq.Letter{}, f.missing(ctx, p)
}

// Foreign reports whether there are rows and none of them has the headers of dead letters: the topic is
// another one, most likely.
func Foreign(rows []Row) bool {
	return len(rows) > 0 && !slices.ContainsFunc(rows, func(r Row) bool { return r.Family != unknown })
}
