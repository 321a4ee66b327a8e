package engine

import (
	"fmt"
	"math"

	"github.com/holdfast-go/holdfast/stream"
)

// # What a rebuild drops
//
// A restore leaves out snapshots of an incarnation before the present one. Whoever else reads the topic sees
// them as the newest of their keys, for ever, where the rebuilt history does not come to these keys again:
// another Route gives other keys, another Fold fewer states. So each of them gets a tombstone (R30), unless it
// has come again by then.
//
// The tombstone is one write, without the deletion before it that R20 asks for. That is there for a replay from
// before the deletion, which must not find the key without its history. Here no replay finds anything either
// way: what the tombstone removes does not count, so that a restore without it, with it, and after compaction has
// removed both are the same. Nor can it remove what counts:
//
//  1. The key is folded before the batch with its tombstone is closed: it is known, and is left out of it.
//  2. The key is folded later: its snapshot is in a later batch, as one is in flight at most.
//  3. The process ends in between: what is left is found by the next restore, which has the incarnation from
//     the progress record of the rebuild. That is committed before the first batch is closed.
//
// An owner that is stale writes none: the fence refuses it. Under Unfenced it may, as it may overwrite any state.

// dropUnread has keys of before a rebuild that the log still has in e.dropped.
func (e *Engine[S]) dropUnread() {
	for key, x := range e.keys {
		if x.inc < e.incarnation {
			e.forget(x)
			e.dropped = append(e.dropped, key)
		}
	}
}

// mostDropped is the most tombstones of a batch that has no bound.
const mostDropped = 1000

// drop puts tombstones for keys of before a rebuild into b. A quarter of a batch is theirs at least, however much
// else there is to write, and one record.
func (e *Engine[S]) drop(b *Batch) {
	writes, room := mostDropped, int64(math.MaxInt64)
	if limit := e.cfg.MaxWrites; limit > 0 {
		writes = max(limit/4, limit-len(b.Outputs)-len(b.Writes), 1)
	}
	if limit := e.maxBytes(); limit > 0 {
		room = max(limit/4, limit-b.Bytes)
	}
	for _, key := range e.dropped {
		if e.keys[key] == nil {
			size := int64(len(key) + RecordOverheadBytes)
			if n := len(b.Dropped); n == writes || n > 0 && size > room {
				return
			}
			room -= size
			b.Dropped = append(b.Dropped, []byte(key))
			b.Bytes += size
		}
		b.passed++ // or it has come again: its snapshot replaces what is there
	}
	if len(b.Dropped) == 0 {
		e.dropped, b.passed = nil, 0
	}
}

// undropped is the error of a tombstone that the broker refuses for what it is.
func (e *Engine[S]) undropped(key []byte, err error) error {
	out := stream.NewError("persist", fmt.Errorf("the tombstone of a key that a rebuild has dropped is refused: %w", err)).
		At(e.cfg.Partition, -1).Hinted("mend what the broker's error names; the next run goes on with it")
	out.Key = key
	return out
}
