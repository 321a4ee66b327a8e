package intake

import (
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
)

func tooLarge(err error) bool { return errors.Is(err, kgo.ErrMaxDecompress) }

// scanned is what the walk over a batch needs of a record.
type scanned struct {
	size           int // with the length in front
	timestampDelta int64
	offsetDelta    int32
	headers        int64 // as many as the client allocates
}

// scan reads the beginning of a record with the functions that the client reads it with, and allocates nothing.
// ok is false where the client stops as well, after it has allocated the headers.
func scan(in []byte) (r scanned, ok bool) {
	length, n := kbin.Varint(in)
	if n <= 0 || length < 0 || int(length) > len(in)-n {
		return scanned{}, false
	}
	r.size = n + int(length)
	b := kbin.Reader{Src: in[n:r.size]}
	b.Int8()
	r.timestampDelta = b.Varlong()
	r.offsetDelta = b.Varint()
	b.VarintBytes()
	b.VarintBytes()
	r.headers = max(int64(b.VarintArrayLen()), 0)
	return r, b.Ok()
}

func appendVarint(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }
