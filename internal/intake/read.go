package intake

import (
	"context"
	"encoding/binary"
)

// Opened are batches that a reader by position has opened, until it releases them.
type Opened struct {
	Batches []byte // one after the other, without compression

	budget *Budget
	cost   int64
}

// Release gives back what the batches took. It may be called more than once, and for nil.
func (o *Opened) Release() {
	if o == nil || o.cost == 0 {
		return
	}
	o.budget.mu.Lock()
	defer o.budget.mu.Unlock()
	o.budget.read -= o.cost
	o.cost = 0
	o.budget.signal()
}

// pageShare is the part of what readers may hold that one of them opens at once, unless a single batch is larger.
const pageShare = 4

// Open opens the batches of an answer that was fetched by position, as many as one reader may hold at once and one at
// least. It waits for other readers of the budget to release theirs. The error is the cause of ctx.
func (b *Budget) Open(ctx context.Context, raw []byte) (*Opened, error) {
	if err := b.reading.await(ctx); err != nil {
		return nil, err
	}
	defer b.reading.done()
	parts, cost, err := b.openAll(ctx, raw)
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, func() (bool, <-chan struct{}) { return b.take(cost) }); err != nil {
		return nil, err
	}
	o := &Opened{budget: b, cost: cost}
	if len(parts) == 1 {
		o.Batches = parts[0]
		return o, nil
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	o.Batches = make([]byte, 0, size)
	for i, p := range parts {
		o.Batches = append(o.Batches, p...)
		parts[i] = nil
	}
	return o, nil
}

func (b *Budget) openAll(ctx context.Context, raw []byte) (parts [][]byte, cost int64, err error) {
	for len(raw) >= anyHeader {
		length := int(int32(binary.BigEndian.Uint32(raw[atLength:]))) + beforeLength
		if length < anyHeader { // damaged, which the client says
			return append(parts, raw[:anyHeader]), cost, nil
		}
		if length > len(raw) {
			break // cut off
		}
		o, err := b.openInTurn(ctx, raw[:length:length])
		if err != nil {
			return nil, 0, err
		}
		if cost > 0 && cost+o.cost > b.MaxBatch()/pageShare {
			break
		}
		parts, cost, raw = append(parts, o.parts...), cost+o.cost, raw[length:]
	}
	return parts, cost, nil
}

// openInTurn opens a batch while no other one of the budget is being opened.
func (b *Budget) openInTurn(ctx context.Context, raw batch) (opened, error) {
	if err := b.opening.await(ctx); err != nil {
		return opened{}, err
	}
	defer b.opening.done()
	if int64(len(raw)) > b.MaxBatch() && raw.sound() {
		return b.refuse(raw[:batchHeader], int64(len(raw))), nil
	}
	return b.open(raw), nil
}
