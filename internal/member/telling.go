package member

import "sync"

// telling tells of one ownership in order, by one goroutine at a time: a takeover that goes on behind the
// callback may end just as the ownership does, and nothing is told after the end. It waits for nobody: what
// comes while something is told is told by the goroutine that does that.
type telling struct {
	mu      sync.Mutex
	waiting []func()
	busy    bool
	over    bool // the end was told, or waits to be
}

// next tells, unless the end was told.
func (t *telling) next(tell func()) { t.add(tell, false) }

// last tells of the end, once.
func (t *telling) last(tell func()) { t.add(tell, true) }

func (t *telling) add(tell func(), last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.over = last
	t.waiting = append(t.waiting, tell)
	if t.busy {
		return
	}
	t.busy = true
	defer func() { t.busy = false }()
	for len(t.waiting) > 0 {
		tell := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.unlocked(tell)
	}
}

// unlocked calls tell without the lock, which is held again afterwards, also after a panic.
func (t *telling) unlocked(tell func()) {
	t.mu.Unlock()
	defer t.mu.Lock()
	tell()
}
