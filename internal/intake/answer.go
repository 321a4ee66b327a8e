package intake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// answer is an answer to a fetch while it is read. All of it but the records is copied as it is, whatever the
// version has there.
type answer struct {
	in      *io.LimitedReader
	version int16
	budget  *Budget
	opens   bool  // batches are opened here
	page    *page // that their cost is counted in; nil unless opens

	parts [][]byte // what the client is given
	tail  []byte   // and after these, what was copied last
	meta  int      // bytes that were copied
	err   error

	waited bool // for room, once
}

// maxMeta is what an answer may have beside records: 100,000 partitions come to some 10 MB.
const maxMeta = 32 << 20

// roomPatience is how long an answer waits for room. It is as long as a fetch waits at a broker that has nothing.
const roomPatience = 100 * time.Millisecond

var errMalformed = errors.New("it is malformed")

// read reads all of it.
func (a *answer) read() error {
	flexible := a.version >= 12
	if flexible {
		a.tags() // of the response header
	}
	if a.version >= 1 {
		a.copy(4) // throttle time
	}
	if a.version >= 7 {
		a.copy(2 + 4) // error code, session
	}
	for range a.array(flexible) {
		if a.err != nil {
			break
		}
		a.topic(flexible)
	}
	a.copy(int(a.in.N)) // tags, or what later versions add
	return a.err
}

func (a *answer) topic(flexible bool) {
	switch {
	case a.version >= 13:
		a.copy(16) // id
	case flexible:
		a.copy(int(a.uvarint()) - 1)
	default:
		a.copy(int(int16(binary.BigEndian.Uint16(a.copy(2)))))
	}
	for range a.array(flexible) {
		if a.err != nil {
			return
		}
		a.partition(flexible)
	}
	if flexible {
		a.tags()
	}
}

func (a *answer) partition(flexible bool) {
	a.copy(4 + 2 + 8) // number, error code, high watermark
	if a.version >= 4 {
		a.copy(8) // last stable offset
	}
	if a.version >= 5 {
		a.copy(8) // log start
	}
	if a.version >= 4 {
		for range a.array(flexible) { // aborted transactions
			if a.err != nil {
				return
			}
			a.copy(8 + 8)
			if flexible {
				a.tags()
			}
		}
	}
	if a.version >= 11 {
		a.copy(4) // preferred replica
	}
	a.records(flexible)
	if flexible {
		a.tags()
	}
}

// records reads the batches of a partition, and appends what the client is given of them.
func (a *answer) records(flexible bool) {
	var size int
	if flexible {
		size = int(a.readUvarint()) - 1
	} else {
		size = int(int32(binary.BigEndian.Uint32(a.take(4))))
	}
	if size > 0 && int64(size) > a.in.N {
		a.fail(errMalformed)
	}
	if a.err != nil {
		return
	}
	var batches [][]byte
	if size > 0 {
		batches = a.batches(size)
	}
	total := 0
	for _, b := range batches {
		total += len(b)
	}
	switch {
	case flexible && size < 0:
		a.tail = append(a.tail, 0)
	case flexible:
		a.tail = binary.AppendUvarint(a.tail, uint64(total+1))
	case size < 0:
		a.tail = binary.BigEndian.AppendUint32(a.tail, 0xffffffff)
	default:
		a.tail = binary.BigEndian.AppendUint32(a.tail, uint32(total))
	}
	if len(batches) > 0 {
		a.parts = append(append(a.parts, a.tail), batches...)
		a.tail = nil
	}
}

// batches reads the batches that are in size bytes. The last one may be cut off, and is left out then, as is
// what there is no room for.
func (a *answer) batches(size int) (out [][]byte) {
	for size >= anyHeader && a.err == nil {
		head := a.take(anyHeader)
		size -= anyHeader
		rest := int(int32(binary.BigEndian.Uint32(head[atLength:]))) + beforeLength - anyHeader
		if rest < 0 { // damaged, which the client says
			out = append(out, head)
			break
		}
		if rest > size {
			break // cut off
		}
		size -= rest
		o, ok := a.batch(head, rest)
		if !ok {
			break
		}
		out = append(out, o.parts...)
	}
	a.skip(size)
	return out
}

// batch reads the rest of a batch and opens it. ok is false if there is no room for it.
func (a *answer) batch(head batch, rest int) (o opened, ok bool) {
	limit := a.budget.MaxBatch()
	large := int64(anyHeader+rest) > limit
	if large && head.magic() != magicBatches {
		a.fail(fmt.Errorf("a message of an old format has %d bytes, more than %d", anyHeader+rest, limit))
		return opened{}, false
	}
	read := rest
	if large {
		read = batchHeader - anyHeader
	}
	raw := append(head, a.take(read)...)
	if large {
		a.skip(rest - read)
	}
	switch {
	case a.err != nil:
		return opened{}, false
	case large:
		o = a.budget.refuse(raw, int64(anyHeader+rest))
	case !a.opens:
		return opened{parts: [][]byte{raw}}, true
	default:
		var err error
		if o, err = a.budget.openInTurn(context.Background(), raw); err != nil {
			a.fail(err)
			return opened{}, false
		}
	}
	return a.counted(o)
}

// counted counts a batch in the page. It waits a little for room.
func (a *answer) counted(o opened) (opened, bool) {
	if !a.opens {
		return o, true
	}
	try := func() (bool, <-chan struct{}) { return a.budget.fill(a.page, o.cost) }
	ok, _ := try()
	if !ok && a.page.cost == 0 && !a.waited {
		a.waited = true
		ctx, cancel := context.WithTimeout(context.Background(), roomPatience)
		defer cancel()
		ok = wait(ctx, try) == nil
	}
	return o, ok
}

// done returns what the client is given, with its size in front.
func (a *answer) done() [][]byte {
	parts := a.parts
	if len(a.tail) > 0 {
		parts = append(parts, a.tail)
	}
	size := -4
	for _, p := range parts {
		size += len(p)
	}
	binary.BigEndian.PutUint32(parts[0], uint32(size))
	return parts
}

func (a *answer) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// take reads n bytes. After an error there are 8 zeros at least.
func (a *answer) take(n int) []byte { return a.into(nil, n) }

// copy reads n bytes and gives them to the client. It returns what take does.
func (a *answer) copy(n int) []byte {
	n = max(n, 0) // -1 is a string that is null
	if a.meta += n; a.meta > maxMeta {
		a.fail(errMalformed)
	}
	at := len(a.tail)
	a.tail = a.into(a.tail, n)
	return a.tail[at:]
}

// into reads n bytes behind those of p.
func (a *answer) into(p []byte, n int) []byte {
	if n < 0 || int64(n) > a.in.N {
		a.fail(errMalformed)
	}
	if a.err != nil {
		return append(p, make([]byte, 8)...)
	}
	at := len(p)
	p = append(p, make([]byte, n)...)
	if _, err := io.ReadFull(a.in, p[at:]); err != nil {
		a.fail(err)
		return append(p, make([]byte, 8)...)
	}
	return p
}

func (a *answer) skip(n int) {
	if a.err != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, a.in, int64(n)); err != nil {
		a.fail(err)
	}
}

// array copies the length of an array and returns it.
func (a *answer) array(flexible bool) int {
	var n int64
	if flexible {
		n = int64(a.uvarint()) - 1
	} else {
		n = int64(int32(binary.BigEndian.Uint32(a.copy(4))))
	}
	if n > a.in.N { // each element has a byte at least
		a.fail(errMalformed)
		return 0
	}
	return int(max(n, 0))
}

// tags copies tagged fields.
func (a *answer) tags() {
	for range min(a.uvarint(), uint64(a.in.N)) {
		if a.err != nil {
			return
		}
		a.uvarint()
		a.copy(int(min(a.uvarint(), maxMeta+1)))
	}
}

// uvarint copies a number.
func (a *answer) uvarint() uint64 {
	v := a.readUvarint()
	a.tail = binary.AppendUvarint(a.tail, v)
	return v
}

// readUvarint reads a number of 32 bits.
func (a *answer) readUvarint() (v uint64) {
	for shift := 0; shift < 35; shift += 7 {
		b := a.take(1)[:1][0]
		v |= uint64(b&0x7f) << shift
		if b < 0x80 || a.err != nil {
			return v
		}
	}
	a.fail(errMalformed)
	return 0
}
