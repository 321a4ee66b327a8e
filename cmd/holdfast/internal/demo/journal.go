package demo

import (
	"context"
	"fmt"
	"maps"
	"sync"
)

// journal is what the members have reported. It is safe for concurrent use.
type journal struct {
	mu        sync.Mutex
	entries   []entry // without commits, which are many
	committed map[int32]int64
	by        map[int32]string // partition → member that committed last
	takeovers int
	grown     chan struct{} // closed, and replaced, when anything changes
}

type entry struct {
	member string
	report
}

func newJournal() *journal {
	return &journal{committed: map[int32]int64{}, by: map[int32]string{}, grown: make(chan struct{})}
}

func (j *journal) add(member string, r report) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case r.What == didCommit:
		j.committed[r.Partition], j.by[r.Partition] = max(j.committed[r.Partition], r.Offset), member
	default:
		j.entries = append(j.entries, entry{member: member, report: r})
	}
	if r.What == didAssign && r.TookOver {
		j.takeovers++
	}
	close(j.grown)
	j.grown = make(chan struct{})
}

// mark is a moment: what was reported before it can be told from what came after.
func (j *journal) mark() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries)
}

// view is the journal at one moment.
type view struct {
	entries   []entry
	committed map[int32]int64
	by        map[int32]string
}

func (j *journal) view() (v view, grown <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return view{entries: j.entries[:len(j.entries):len(j.entries)], committed: maps.Clone(j.committed), by: maps.Clone(j.by)}, j.grown
}

// await waits until the journal shows what is looked for.
func (j *journal) await(ctx context.Context, what string, look func(view) bool) error {
	for {
		v, grown := j.view()
		if look(v) {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}

// owners returns who holds each partition and has restored it.
func (v view) owners() map[int32]string {
	owner := map[int32]string{}
	for _, e := range v.entries {
		switch e.What {
		case didRestore:
			owner[e.Partition] = e.member
		case didAssign, didRelease:
			if e.What == didAssign || owner[e.Partition] == e.member {
				delete(owner, e.Partition)
			}
		}
	}
	return owner
}

// did reports whether a member other than not reported what for the partition after the mark.
func (v view) did(what string, partition int32, after int, not string) bool {
	for _, e := range v.entries[min(after, len(v.entries)):] {
		if e.What == what && e.Partition == partition && e.member != not {
			return true
		}
	}
	return false
}

// count returns how many partitions the member holds.
func (v view) count(member string) (n int) {
	for _, m := range v.owners() {
		if m == member {
			n++
		}
	}
	return n
}

func (j *journal) tookOver() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.takeovers
}
