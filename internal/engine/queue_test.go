package engine

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// The queue agrees with a sorted slice over random pushes, moves and removals.
func TestQueue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var q queue[int]
		var all []*entry[int]
		least := func() *entry[int] {
			return slices.MinFunc(all, func(a, b *entry[int]) int {
				return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.tie, b.tie))
			})
		}
		for n := range 400 {
			switch p := rng.IntN(10); {
			case p < 5 || len(all) == 0:
				x := &entry[int]{}
				q.push(x, rng.Int64N(50), int64(n))
				all = append(all, x)
			case p < 7:
				q.move(all[rng.IntN(len(all))], rng.Int64N(50))
			default:
				i := rng.IntN(len(all))
				q.remove(all[i])
				all = slices.Delete(all, i, i+1)
			}
			if len(all) == 0 {
				continue
			}
			if want := least(); q.top() != want || len(q.items) != len(all) {
				t.Fatalf("seed %d, operation %d: top has rank %d, want %d", seed, n, q.top().rank, want.rank)
			}
		}
		for len(all) > 0 {
			x := least()
			if q.top() != x {
				t.Fatalf("seed %d, %d left: top has rank %d, want %d", seed, len(all), q.top().rank, x.rank)
			}
			q.remove(x)
			all = slices.DeleteFunc(all, func(y *entry[int]) bool { return x == y })
		}
	}
}
