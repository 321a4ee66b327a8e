package fence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// progressKey is reserved: it begins with a single 0 byte, and user keys that begin with one get one
// more in front.
const progressKey = "\x00progress"

// progressVersion is the first byte of a progress record's value. A reader refuses every other one.
const progressVersion = 1

// errProgress: a progress record cannot be decoded. It is never treated as absent: the record is the
// second witness of the committed offset.
var errProgress = errors.New("progress record cannot be decoded")

// Progress is a small record that every transaction writes to the progress partition. It keeps a
// transaction from being offset-only, and it is the second witness of the committed offset: the
// offset itself can expire or be reset, and its log can be truncated.
type Progress struct {
	Inputs      []InputProgress
	Partitions  int32 // partition count of the input topics
	Group       string
	MemberID    string
	Generation  int32 // read when the transaction began; the offset may carry a later one
	Incarnation uint32
	Nonce       uint64 // drawn at each grant
	Sequence    uint64 // counts the commits under the nonce, from 1
	FoldVersion string
	At          time.Time // wall clock of the owner, to the millisecond; for people, not for rules
}

// InputProgress is the committed position in one input topic.
type InputProgress struct {
	Topic       string
	TopicID     [16]byte
	Next        int64 // next offset to fold
	LeaderEpoch int32 // of the record before Next, -1 if unknown
}

// inputHeader of a progress record names the input partition that it is of. It is no field of the value,
// whose readers are strict, and records without it are of the partition that their place says.
const inputHeader = "holdfast.input"

// appliedHeader of a progress record has Applied, where that is above the offset.
const appliedHeader = "holdfast.applied"

// Applied is how far states may have applied an input: one past the last record, and the leader epoch of
// that record. Zero: nothing is known to be applied.
type Applied struct {
	Next        int64
	LeaderEpoch int32
}

// Headers returns what a progress record that commits the offset next carries beside its value.
func (a Applied) Headers(next int64) []stream.Header {
	if a.Next <= next {
		return nil
	}
	value := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(a.Next)), uint32(a.LeaderEpoch))
	return []stream.Header{{Key: appliedHeader, Value: value}}
}

// Applied tells how far the states that were given to w, and those that were restored, may have applied the
// input. Where that is past the committed offset the progress record carries it, so that the next owner
// finds out about an input that was truncated in between. A caller that keeps no applied offsets needs none.
func (w *Writer) Applied(a Applied) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.applied = a
}

func (w *Writer) appliedHeaders(next int64) []stream.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.applied.Headers(next)
}

// ProgressApplied returns how far the states may have applied the input when a progress record was written.
// ok is false if that is no further than the offset of the record.
func ProgressApplied(r stream.Record) (a Applied, ok bool) {
	for _, h := range r.Headers {
		if h.Key == appliedHeader && len(h.Value) == 12 {
			return Applied{int64(binary.BigEndian.Uint64(h.Value)), int32(binary.BigEndian.Uint32(h.Value[8:]))}, true
		}
	}
	return Applied{}, false
}

// ProgressInput returns the input partition that a progress record names, as "topic/partition". ok is
// false if it names none.
func ProgressInput(r stream.Record) (input string, ok bool) {
	for _, h := range r.Headers {
		if h.Key == inputHeader {
			return string(h.Value), true
		}
	}
	return "", false
}

// IsProgressKey reports whether key is the one under which progress records are written.
func IsProgressKey(key []byte) bool { return string(key) == progressKey }

// Encode returns the key and the value of the record. It fails if a name is over 65,535 bytes.
func (p Progress) Encode() (key, value []byte, err error) {
	b := []byte{progressVersion}
	if len(p.Inputs) > math.MaxUint16 {
		return nil, nil, fmt.Errorf("%d inputs in a progress record", len(p.Inputs))
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.Inputs)))
	for _, in := range p.Inputs {
		b, err = appendString(b, in.Topic, err)
		b = append(b, in.TopicID[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(in.Next))
		b = binary.BigEndian.AppendUint32(b, uint32(in.LeaderEpoch))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(p.Partitions))
	b, err = appendString(b, p.Group, err)
	b, err = appendString(b, p.MemberID, err)
	b = binary.BigEndian.AppendUint32(b, uint32(p.Generation))
	b = binary.BigEndian.AppendUint32(b, p.Incarnation)
	b = binary.BigEndian.AppendUint64(b, p.Nonce)
	b = binary.BigEndian.AppendUint64(b, p.Sequence)
	b, err = appendString(b, p.FoldVersion, err)
	b = binary.BigEndian.AppendUint64(b, uint64(p.At.UnixMilli()))
	return []byte(progressKey), b, err
}

func appendString(b []byte, s string, err error) ([]byte, error) {
	if len(s) > math.MaxUint16 {
		return b, errors.Join(err, fmt.Errorf("a name of %d bytes does not fit a progress record", len(s)))
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...), err
}

// DecodeProgress decodes the value of a progress record. It is strict: an unknown version, a
// missing or a spare byte is an error. It keeps no reference to value.
func DecodeProgress(value []byte) (Progress, error) {
	r := reader{b: value}
	if v := r.take(1); r.err == nil && v[0] != progressVersion {
		return Progress{}, fmt.Errorf("version %d: %w", v[0], errProgress)
	}
	var p Progress
	for n := r.uint16(); n > 0 && r.err == nil; n-- {
		var in InputProgress
		in.Topic = r.string()
		copy(in.TopicID[:], r.take(16))
		in.Next = int64(r.uint64())
		in.LeaderEpoch = int32(r.uint32())
		p.Inputs = append(p.Inputs, in)
	}
	p.Partitions = int32(r.uint32())
	p.Group = r.string()
	p.MemberID = r.string()
	p.Generation = int32(r.uint32())
	p.Incarnation = r.uint32()
	p.Nonce = r.uint64()
	p.Sequence = r.uint64()
	p.FoldVersion = r.string()
	p.At = time.UnixMilli(int64(r.uint64())).UTC()
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes too many: %w", len(r.b), errProgress)
	}
	if r.err != nil {
		return Progress{}, r.err
	}
	return p, nil
}

// reader takes fields off b. After the first fault every field is zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && len(r.b) < n {
		r.err = fmt.Errorf("it ends early: %w", errProgress)
	}
	if r.err != nil {
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) uint16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }
func (r *reader) string() string {
	n := int(r.uint16())
	if r.err != nil {
		return ""
	}
	return string(bytes.Clone(r.take(n)))
}

// witness names one commit: whose it was and the how-manieth of theirs.
type witness struct{ nonce, sequence uint64 }

// metadata is the committed offset's metadata: it names the commit, so that an unknown outcome can be
// told from somebody else's commit of the same offset.
func (w witness) metadata(kind string) string {
	return wire.Witness{Nonce: w.nonce, Sequence: w.sequence, Kind: kind}.Metadata()
}

// parseWitness reads metadata. Offsets committed by anything else give the zero witness.
func parseWitness(metadata string) witness {
	w, _ := wire.ParseWitness(metadata)
	return witness{w.Nonce, w.Sequence}
}

// progressFrom decodes r if it is a progress record.
func progressFrom(r stream.Record) (p Progress, ok bool, err error) {
	if !IsProgressKey(r.Key) || r.Value == nil {
		return Progress{}, false, nil
	}
	p, err = DecodeProgress(r.Value)
	if err != nil {
		at := stream.Partition{Topic: r.Topic, Partition: r.Partition}
		return Progress{}, false, stream.NewError("read progress", fmt.Errorf("%w: %w", stream.ErrCorruptSnapshot, err)).At(at, r.Offset)
	}
	return p, true, nil
}
