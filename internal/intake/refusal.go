package intake

import (
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Refusal says what was not let in. In its place stands one record, at Offset.
type Refusal struct {
	// First and Offset are the first and the last offset of the batch if the whole of it was refused. Of a single
	// record both are its own.
	First, Offset int64
	// Bytes is how large it is: of a batch in the log, of a record as it was opened. -1: larger than may be opened.
	Bytes int64
	// Headers is how many headers the record says that it has.
	Headers int64
	// Records is how many records the batch says that it has.
	Records int64
	// Limit is the bound, in bytes, that it is over.
	Limit int64
	// Whole is set if it is a batch of more than one offset. It cannot be said which of its records is too large.
	Whole bool
}

// String says what is too large, and by how much.
func (r Refusal) String() string {
	switch {
	case r.Whole && r.Bytes >= 0:
		return fmt.Sprintf("the batch of offsets %d to %d (%d records, %d bytes in the log) is larger than %d bytes in memory", r.First, r.Offset, r.Records, r.Bytes, r.Limit)
	case r.Headers > 0:
		return fmt.Sprintf("the record has %d headers and %d bytes, together more than %d bytes in memory", r.Headers, r.Bytes, r.Limit)
	}
	return fmt.Sprintf("the record (%d bytes in the log) is larger than %d bytes in memory", r.Bytes, r.Limit)
}

// mark is the key of the header of records that stand in for others. Nobody who writes to a topic can know it.
var mark = rand.Text() + rand.Text()

// Refused returns what a record stands in for; false: it is a record as it was written.
func Refused(r *kgo.Record) (Refusal, bool) {
	if len(r.Headers) != 1 || r.Headers[0].Key != mark {
		return Refusal{}, false
	}
	var refusal Refusal
	if err := json.Unmarshal(r.Headers[0].Value, &refusal); err != nil {
		return Refusal{}, false // nobody else can have made it
	}
	refusal.Offset = r.Offset
	if !refusal.Whole {
		refusal.First = r.Offset
	}
	return refusal, true
}

// standIn appends a record in the place of another.
func (r Refusal) standIn(dst []byte, timestampDelta int64, offsetDelta int32) []byte {
	value, err := json.Marshal(r)
	if err != nil {
		panic(err) // numbers only
	}
	body := []byte{0} // attributes
	body = appendVarint(body, timestampDelta)
	body = appendVarint(body, int64(offsetDelta))
	body = appendVarint(body, -1) // no key
	body = appendVarint(body, -1) // no value
	body = appendVarint(body, 1)
	body = appendVarint(body, int64(len(mark)))
	body = append(body, mark...)
	body = appendVarint(body, int64(len(value)))
	body = append(body, value...)
	dst = appendVarint(dst, int64(len(body)))
	return append(dst, body...)
}
