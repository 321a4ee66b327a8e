package snapshot

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/stream"
)

// Kind says what a snapshot record tells about its key.
type Kind int

const (
	// State: the value is the key's state.
	State Kind = iota
	// NoState: the key has no state, but timers or an applied offset worth keeping.
	NoState
	// Deleted: the key was deleted at the applied offset. It is kept until the committed offset has
	// passed it, because a replay from before would fold the key into existence again.
	Deleted
	// Tombstone: the key is gone, and compaction removes its records.
	Tombstone
)

// String returns the kind's name as it is used in errors.
func (k Kind) String() string {
	switch k {
	case State:
		return "state"
	case NoState:
		return "no state"
	case Deleted:
		return "deleted"
	case Tombstone:
		return "tombstone"
	}
	return fmt.Sprintf("kind(%d)", int(k))
}

// Record is one key's entry in a snapshot topic.
type Record struct {
	Header
	Key   []byte // the user's
	Value []byte // the user's; only for State
	Kind  Kind
}

// Encode returns r as a message without a topic. It shares Key (unless it begins with a zero byte)
// and Value with r. It fails with stream.ErrTooLarge on more inputs, timers or firings, or longer
// timer names, than the format allows, and on a value beside a kind that has none. Encode and Decode are
// pure: any number of goroutines may call them at once.
func Encode(r Record) (stream.Message, error) {
	var flags byte
	value := []byte{} // not nil, which would be a tombstone
	switch r.Kind {
	case State:
		if r.Value != nil {
			value = r.Value
		}
	case NoState:
		flags = flagNoState
	case Deleted:
		flags = flagDeleted
	case Tombstone:
		value = nil
	default:
		return stream.Message{}, encodeError(r, fmt.Errorf("%v is not a kind of record", r.Kind))
	}
	if r.Kind != State && len(r.Value) > 0 {
		return stream.Message{}, encodeError(r, fmt.Errorf("a record of kind %q has no value, but %d bytes were given", r.Kind, len(r.Value)))
	}
	if r.Key == nil {
		return stream.Message{}, encodeError(r, errNoKey)
	}
	h, err := appendHeader(nil, flags, &r.Header)
	if errors.Is(err, errTooMany) {
		err = fmt.Errorf("%w: %w", stream.ErrTooLarge, err)
	}
	if err != nil {
		return stream.Message{}, encodeError(r, err)
	}
	return stream.Message{
		Key:     EscapeKey(r.Key),
		Value:   value,
		Headers: []stream.Header{{Key: HeaderKey, Value: h}},
	}, nil
}

func encodeError(r Record, err error) error {
	e := stream.NewError("encode snapshot", err)
	e.Key = r.Key
	return e
}

var (
	errNoKey    = errors.New("the record has no key")
	errForeign  = errors.New(`the record has no "` + HeaderKey + `" header: something else wrote to the snapshot topic`)
	errTwice    = errors.New(`the record has several "` + HeaderKey + `" headers`)
	errReserved = errors.New("the key is reserved: this record is not a key's snapshot")
	errValue    = errors.New("the record is flagged as having no state, but has a value")
	errFlagged  = errors.New("the record is a tombstone, but is flagged")
)

// Decode returns what a record of a snapshot topic tells about its key. It is strict: whatever is
// not exactly as Encode makes it is stream.ErrCorruptSnapshot, naming topic, partition and offset,
// with the record's key in the error's Key field. Headers other than Holdfast's are left alone. The
// result shares memory with the record. Records with a Reserved key are not snapshots: look first.
func Decode(r stream.Record) (Record, error) {
	rec, err := decode(r)
	if err == nil {
		return rec, nil
	}
	e := stream.NewError("decode snapshot", fmt.Errorf("%w: %w", stream.ErrCorruptSnapshot, err)).
		At(stream.Partition{Topic: r.Topic, Partition: r.Partition}, r.Offset).
		Hinted("find the writer of this record and keep it from this topic, which one flow alone may write; "+
			"look at the record with kafka-console-consumer.sh --bootstrap-server BROKERS --topic %s --partition %d --offset %d "+
			"--max-messages 1 --property print.key=true --property print.headers=true", r.Topic, r.Partition, r.Offset)
	e.Key = r.Key
	return Record{}, e
}

func decode(r stream.Record) (Record, error) {
	if r.Key == nil {
		return Record{}, errNoKey
	}
	key, ok := UnescapeKey(r.Key)
	if !ok {
		return Record{}, errReserved
	}
	var header []byte
	found := false
	for i := range r.Headers {
		if r.Headers[i].Key != HeaderKey {
			continue
		}
		if found {
			return Record{}, errTwice
		}
		header, found = r.Headers[i].Value, true
	}
	if !found {
		return Record{}, errForeign
	}
	flags, h, err := decodeHeader(header)
	if err != nil {
		return Record{}, err
	}
	rec := Record{Header: h, Key: key}
	switch {
	case r.Value == nil && flags != 0:
		return Record{}, errFlagged
	case flags != 0 && len(r.Value) > 0:
		return Record{}, errValue
	case r.Value == nil:
		rec.Kind = Tombstone
	case flags == flagDeleted:
		rec.Kind = Deleted
	case flags == flagNoState:
		rec.Kind = NoState
	default:
		rec.Value = r.Value
	}
	return rec, nil
}
