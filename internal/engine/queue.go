package engine

// queue is a binary heap of entries by rank, then tie. An entry is in one queue at most and knows
// its place, so that it can be taken out or moved in O(log n).
type queue[S any] struct {
	items []*entry[S]
}

func (q *queue[S]) top() *entry[S] {
	if len(q.items) == 0 {
		return nil
	}
	return q.items[0]
}

// push adds x, which is in no queue.
func (q *queue[S]) push(x *entry[S], rank, tie int64) {
	x.in, x.rank, x.tie, x.pos = q, rank, tie, len(q.items)
	q.items = append(q.items, x)
	q.up(x.pos)
}

// remove takes x out, which is in this queue.
func (q *queue[S]) remove(x *entry[S]) {
	last := len(q.items) - 1
	i := x.pos
	q.swap(i, last)
	q.items[last] = nil
	q.items = q.items[:last]
	x.in = nil
	if i < last {
		q.down(i)
		q.up(i)
	}
}

// move gives x another rank.
func (q *queue[S]) move(x *entry[S], rank int64) {
	x.rank = rank
	q.down(x.pos)
	q.up(x.pos)
}

func (q *queue[S]) less(i, j int) bool {
	a, b := q.items[i], q.items[j]
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.tie < b.tie
}

func (q *queue[S]) swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	q.items[i].pos, q.items[j].pos = i, j
}

func (q *queue[S]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.less(i, parent) {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *queue[S]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.items); child++ {
			if q.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swap(i, least)
		i = least
	}
}
