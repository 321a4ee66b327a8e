package main

import (
	"fmt"
	"hash/maphash"
	"slices"
)

// Result of one exhaustive search.
type Result struct {
	States, Edges, Depth int
	Full                 bool          // the whole state space was seen
	Count                [badCount]int // violating states found
	First                [badCount]int // the first (nearest) one, an index
	Dist                 [badCount]int // its distance from the start
	s                    *search
}

type search struct {
	c      *Config
	states []State
	parent []uint32
	table  []uint32 // open addressing: index + 1
	seed   maphash.Seed
	from   []uint32 // edges without faults, by source: from[i]..from[i+1] in to
	to     []uint32
}

func (x *search) find(st *State) (idx uint32, isNew bool) {
	mask := uint64(len(x.table) - 1)
	for h := maphash.Comparable(x.seed, *st) & mask; ; h = (h + 1) & mask {
		i := x.table[h]
		if i == 0 {
			x.states = append(x.states, *st)
			x.table[h] = uint32(len(x.states))
			return uint32(len(x.states) - 1), true
		}
		if x.states[i-1] == *st {
			return i - 1, false
		}
	}
}

func (x *search) grow() {
	if len(x.states)*2 < len(x.table) {
		return
	}
	x.table = make([]uint32, len(x.table)*2)
	mask := uint64(len(x.table) - 1)
	for i := range x.states {
		h := maphash.Comparable(x.seed, x.states[i]) & mask
		for x.table[h] != 0 {
			h = (h + 1) & mask
		}
		x.table[h] = uint32(i + 1)
	}
}

// Run explores breadth first, so that the first violation of a kind has a minimal trace. A violating state is not
// explored further. Beyond max states it stops. With firstOnly it stops at the first violation.
func Run(c *Config, max int, firstOnly bool) *Result {
	x := &search{c: c, seed: maphash.MakeSeed(), table: make([]uint32, 1<<16)}
	res := &Result{s: x, Full: true}
	st := initial(c)
	x.find(&st)
	x.parent = append(x.parent, 0)
	level := []int{0}
	end := 1
	for i := 0; i < len(x.states); i++ {
		if i == end {
			res.Depth++
			end = len(x.states)
			level = append(level, i)
		}
		x.from = append(x.from, uint32(len(x.to)))
		if x.states[i].Bad != badNone {
			continue
		}
		if len(x.states) > max {
			res.Full = false
			break
		}
		x.grow()
		c.Next(x.states[i], func(what string, _ int, fault bool, t State) {
			c.note(what)
			if t.Bad == badNone {
				c.checkState(&t)
			}
			t = t.canon()
			j, isNew := x.find(&t)
			res.Edges++
			if !fault {
				x.to = append(x.to, j)
			}
			if !isNew {
				return
			}
			x.parent = append(x.parent, uint32(i))
			if b := t.Bad; b != badNone {
				if res.Count[b] == 0 {
					res.First[b], res.Dist[b] = int(j), res.Depth+1
				}
				res.Count[b]++
			}
		})
		if firstOnly && res.Violated() {
			res.Full = false
			break
		}
	}
	res.States = len(x.states)
	if res.Full {
		x.from = append(x.from, uint32(len(x.to)))
		x.stuck(res)
	}
	return res
}

// Violated reports whether any check failed.
func (r *Result) Violated() bool {
	for _, n := range r.Count {
		if n > 0 {
			return true
		}
	}
	return false
}

// stuck counts the states from which no good state can be reached without another fault.
func (x *search) stuck(res *Result) {
	ok := make([]bool, len(x.states))
	for i := range x.states {
		ok[i] = x.states[i].Bad != badNone || x.c.good(&x.states[i])
	}
	for changed := true; changed; {
		changed = false
		for i := len(ok) - 1; i >= 0; i-- {
			for e := x.from[i]; !ok[i] && e < x.from[i+1]; e++ {
				if ok[x.to[e]] {
					ok[i], changed = true, true
				}
			}
		}
	}
	for i := range ok {
		if ok[i] {
			continue
		}
		if res.Count[badStuck]++; res.Count[badStuck] == 1 {
			res.First[badStuck] = i
			for j := i; j != 0; j = int(x.parent[j]) {
				res.Dist[badStuck]++
			}
		}
	}
}

// Endless returns the states that lie on, or lead to, a run that never ends although no fault happens any more, and
// one such cycle as state numbers. If there is none, every run without faults ends, whatever the scheduling.
func (r *Result) Endless() (n int, cycle []int) {
	x := r.s
	ends := make([]bool, len(x.states))
	n = len(ends)
	for changed := true; changed; {
		changed = false
		for i := len(ends) - 1; i >= 0; i-- {
			if ends[i] {
				continue
			}
			all := true
			for e := x.from[i]; all && e < x.from[i+1]; e++ {
				all = ends[x.to[e]] || x.to[e] == uint32(i)
			}
			if all {
				ends[i], changed = true, true
				n--
			}
		}
	}
	if n == 0 {
		return 0, nil
	}
	best := -1
	for i, tries := 0, 0; i < len(ends) && tries < 2000; i++ { // shortest way back to itself, from the nearest states
		if ends[i] {
			continue
		}
		tries++
		from, queue := map[int]int{}, []int{i}
		for len(queue) > 0 && len(from) < 20000 {
			j := queue[0]
			queue = queue[1:]
			for _, t := range x.to[x.from[j]:x.from[j+1]] {
				k := int(t)
				if _, seen := from[k]; seen || ends[k] || k == j {
					continue
				}
				from[k] = j
				queue = append(queue, k)
			}
			if _, back := from[i]; back {
				break
			}
		}
		if _, back := from[i]; !back {
			continue
		}
		c := []int{i}
		for j := from[i]; j != i; j = from[j] {
			c = append(c, j)
		}
		if best < 0 || len(c) < best {
			best, cycle = len(c), c
		}
	}
	slices.Reverse(cycle)
	return n, cycle
}

// Trace tells how state number i is reached, one line a step, with the names of the processes kept.
func (r *Result) Trace(i int) []string { return r.follow(r.path(i)) }

// path is the way from the start to state number i, last state first.
func (r *Result) path(i int) (path []int) {
	for ; i != 0; i = int(r.s.parent[i]) {
		path = append(path, i)
	}
	return path
}

func (r *Result) follow(path []int) (lines []string) {
	x := r.s
	cur := initial(x.c)
	for n := len(path) - 1; n >= 0; n-- {
		want, found := x.states[path[n]], false
		x.c.Next(cur, func(what string, p int, fault bool, t State) {
			if found {
				return
			}
			if t.Bad == badNone {
				x.c.checkState(&t)
			}
			if t.canon() != want {
				return
			}
			found = true
			who := [...]string{"-", "A", "B"}[p+1]
			if fault {
				what += "  (fault)"
			}
			t.rename()
			cur = t
			lines = append(lines, fmt.Sprintf("%3d %s %s%s", len(path)-n, who, what, t.brief(x.c)))
		})
		if !found {
			panic("model: trace lost")
		}
	}
	return lines
}

// brief is the part of a state that a reader of a trace wants.
func (s *State) brief(c *Config) string {
	out := fmt.Sprintf("   [txn %s", [...]string{"-", "open", "commit", "abort"}[s.Txn])
	out += fmt.Sprintf(" c=%d p=%d owner=%s", s.Off, s.Prog, [...]string{"-", "A", "B"}[s.Owner])
	for i := range s.P {
		p := &s.P[i]
		if p.Own != ownNone {
			out += fmt.Sprintf(" %c:%s pos=%d", 'A'+i, [...]string{"", "held", "draining"}[p.Own], p.Pos)
			if p.B.ID != 0 {
				out += fmt.Sprintf(" batch(keys %b off %d)", p.B.Keys, p.B.Off)
			}
		}
	}
	return out + "]"
}
