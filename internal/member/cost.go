package member

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/stream"
)

// cost is what a rebuild of a partition would take away, as last known. It is read by any goroutine.
type cost struct {
	keys  atomic.Int64 // that have a state; -1 unknown
	first atomic.Int64 // offset of the input; -1 unknown
}

// priced has every hint that names Rebuild say what that costs: a person who follows it has to know before, since
// nothing brings the states back.
func priced(err error, keys, first int64, stateless bool) error {
	e := (*stream.Error)(nil)
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "Rebuild") || strings.Contains(e.Hint, costs) {
		return err
	}
	e.Hint += ". " + costOf(keys, first, stateless, errors.Is(err, stream.ErrInputChanged))
	return err
}

// costs is what such a sentence begins with.
const costs = "Rebuild drops "

func costOf(keys, first int64, stateless, changed bool) string {
	if stateless {
		if first < 0 {
			return costs + "no state. It processes the input again, and writes the outputs once more"
		}
		return fmt.Sprintf(costs+"no state. It processes the input again from offset %d on, and writes the outputs once more", first)
	}
	what := "all states of the partition"
	if keys >= 0 {
		what = fmt.Sprintf("the %d states of this partition", keys)
	}
	switch {
	case keys == 0:
		return costs + "no state here: there is none"
	case changed:
		return costs + what + ": what they have of the input as it was does not come back from the input as it is"
	case first == 0:
		return costs + what + ": the input still begins at offset 0, so that they are folded again, but for what compaction has removed"
	case first > 0:
		return fmt.Sprintf(costs+"%s: the input begins at offset %d, and what they have from before that does not come back", what, first)
	}
	return costs + what + ": what they have from records that the input has no more does not come back"
}

// counted takes note of how many states a restore has found; those that cannot be read are not counted.
func (w *worker) counted(f found) {
	keys := int64(w.engine.Stats().Keys)
	if f.corrupt != nil {
		keys = -1
	}
	w.cost.keys.Store(keys)
}

// priced is the same with what is known of the worker's partition.
func (w *worker) priced(err error) error {
	return priced(err, w.cost.keys.Load(), w.cost.first.Load(), w.m.cfg.Map != nil)
}
