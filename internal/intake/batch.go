package intake

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The layout of a record batch, magic 2. What is before the magic byte is the same in all formats.
const (
	atFirst      = 0
	atLength     = 8
	atMagic      = 16
	anyHeader    = 17
	atCRC        = 17
	atAttributes = 21
	atLastDelta  = 23
	atCount      = 57
	batchHeader  = 61
	beforeLength = 12 // what the length does not count
	codecBits    = 0x07
	magicBatches = 2
	controlBit   = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one batch as a broker has it, whole.
type batch []byte

func (b batch) first() int64      { return int64(binary.BigEndian.Uint64(b[atFirst:])) }
func (b batch) magic() byte       { return b[atMagic] }
func (b batch) attributes() int16 { return int16(binary.BigEndian.Uint16(b[atAttributes:])) }
func (b batch) lastDelta() int32  { return int32(binary.BigEndian.Uint32(b[atLastDelta:])) }
func (b batch) count() int32      { return int32(binary.BigEndian.Uint32(b[atCount:])) }
func (b batch) codec() kgo.CompressionCodecType {
	return kgo.CompressionCodecType(b.attributes() & codecBits)
}

// sound reports whether the client would take the batch apart: else it says by itself what is wrong with it.
func (b batch) sound() bool {
	return len(b) >= batchHeader && b.magic() == magicBatches && b.count() >= 0 &&
		crc32.Checksum(b[atAttributes:], castagnoli) == binary.BigEndian.Uint32(b[atCRC:])
}

// opened is a batch as the client is given it, in parts.
type opened struct {
	parts [][]byte
	cost  int64
}

// open returns a batch without compression, with what is too large replaced. A batch that is damaged, or of a format
// before this one, is returned as it is: the client has a bound of its own for what it decompresses.
func (b *Budget) open(raw batch) opened {
	if !raw.sound() {
		cost := int64(len(raw))
		if len(raw) > atMagic && raw.magic() < magicBatches {
			cost = b.MaxBatch()
		}
		return opened{[][]byte{raw}, cost}
	}
	if raw.attributes()&controlBit != 0 && raw.codec() == kgo.CodecNone {
		return opened{[][]byte{raw}, int64(len(raw)) + recordCost*int64(min(raw.count(), int32(len(raw))))}
	}
	records := []byte(raw[batchHeader:])
	if codec := raw.codec(); codec != kgo.CodecNone {
		out, err := b.opener.Decompress(records, codec)
		switch {
		case tooLarge(err):
			return b.refuse(raw[:batchHeader], int64(len(raw)))
		case err != nil:
			return opened{[][]byte{raw}, int64(len(raw))} // the client says what is wrong
		}
		records = out
	}
	return b.counted(raw, records)
}

// counted walks the records of a batch, replaces those that are too large, and refuses the batch if the rest is.
func (b *Budget) counted(raw batch, records []byte) opened {
	limit, count := b.MaxBatch(), int(raw.count())
	switch {
	case len(records) == 0: // compacted away, or damaged, which the client says
		return opened{[][]byte{raw}, int64(len(raw))}
	case count > len(records): // damaged; the client allocates by either number
		return b.refuse(raw[:batchHeader], int64(len(raw)))
	}
	var (
		parts [][]byte
		kept  int // of records, up to where they are in parts
		cost  = int64(count) * recordCost
		n     int
	)
	for at := 0; n < count && cost <= limit; n++ {
		r, ok := scan(records[at:])
		if !ok {
			break // damaged: the client stops here too
		}
		if own := recordCost + int64(r.size) + r.headers*headerCost; own > limit {
			refusal := Refusal{Bytes: int64(r.size), Headers: r.headers, Limit: limit}
			parts = append(parts, records[kept:at], refusal.standIn(nil, r.timestampDelta, r.offsetDelta))
			kept = at + r.size
			cost += recordCost
		} else {
			cost += own - recordCost
		}
		at += r.size
	}
	if cost > limit {
		return b.refuse(raw[:batchHeader], int64(len(raw)))
	}
	if len(parts) == 0 && raw.codec() == kgo.CodecNone {
		return opened{[][]byte{raw}, cost}
	}
	return raw[:batchHeader].with(append(parts, records[kept:]), cost)
}

// refuse puts one record in the place of a batch, at its last offset: of a read that begins in the middle of the
// batch it is still ahead.
func (b *Budget) refuse(header batch, size int64) opened {
	refusal := Refusal{
		First: header.first(), Bytes: size, Records: int64(header.count()), Limit: b.MaxBatch(), Whole: header.lastDelta() > 0,
	}
	h := append(batch(nil), header...)
	binary.BigEndian.PutUint32(h[atCount:], 1)
	return h.with([][]byte{refusal.standIn(nil, 0, header.lastDelta())}, recordCost)
}

// with returns the batch of a header and other records, without compression.
func (b batch) with(records [][]byte, cost int64) opened {
	h := append(batch(nil), b...)
	binary.BigEndian.PutUint16(h[atAttributes:], uint16(b.attributes()&^codecBits))
	size := batchHeader
	for _, r := range records {
		size += len(r)
	}
	binary.BigEndian.PutUint32(h[atLength:], uint32(size-beforeLength))
	sum := crc32.Checksum(h[atAttributes:], castagnoli)
	for _, r := range records {
		sum = crc32.Update(sum, castagnoli, r)
	}
	binary.BigEndian.PutUint32(h[atCRC:], sum)
	return opened{append([][]byte{h}, records...), cost}
}
