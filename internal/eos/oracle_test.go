package eos

import (
	"fmt"
	"slices"
	"testing"
)

// history is what one reader saw, by partition and in the order it saw it.
type history map[int32][]int

func (h history) count() (n int) {
	for _, vs := range h {
		n += len(vs)
	}
	return n
}

// violations compares a copy with its input. Every value is in the input once, so that the copy is
// right only if each partition has the values of the input's partition, each once and in their order.
func violations(input, copied history) (found []string) {
	home := map[int]int32{}
	for p, vs := range input {
		for _, v := range vs {
			home[v] = p
		}
	}
	seen := map[int]int{}
	for p, vs := range copied {
		for i, v := range vs {
			from, ok := home[v]
			switch seen[v]++; {
			case !ok:
				found = append(found, fmt.Sprintf("foreign: %d in partition %d was never an input", v, p))
			case from != p:
				found = append(found, fmt.Sprintf("moved: %d of partition %d is in partition %d", v, from, p))
			case seen[v] == 2:
				found = append(found, fmt.Sprintf("duplicate: %d is in partition %d again, as number %d", v, p, i))
			}
		}
	}
	for v, p := range home {
		if seen[v] == 0 {
			found = append(found, fmt.Sprintf("missing: %d of partition %d", v, p))
		}
	}
	if len(found) > 0 {
		slices.Sort(found)
		return found
	}
	// The sets are equal and nothing is there twice: only the order can differ.
	for p, vs := range input {
		for i := range vs {
			if copied[p][i] != vs[i] {
				found = append(found, fmt.Sprintf("order: partition %d has %d as number %d, the input has %d", p, copied[p][i], i, vs[i]))
				break
			}
		}
	}
	slices.Sort(found)
	return found
}

func TestViolationsNamesEachFault(t *testing.T) {
	t.Parallel()
	input := history{0: {1, 3, 5}, 1: {2, 4}}
	for name, c := range map[string]struct {
		copied history
		want   []string
	}{
		"right":     {history{0: {1, 3, 5}, 1: {2, 4}}, nil},
		"duplicate": {history{0: {1, 3, 1, 5}, 1: {2, 4}}, []string{"duplicate: 1 is in partition 0 again, as number 2"}},
		"missing":   {history{0: {1, 5}, 1: {2, 4}}, []string{"missing: 3 of partition 0"}},
		"empty":     {history{}, []string{"missing: 1 of partition 0", "missing: 2 of partition 1", "missing: 3 of partition 0", "missing: 4 of partition 1", "missing: 5 of partition 0"}},
		"order":     {history{0: {3, 1, 5}, 1: {2, 4}}, []string{"order: partition 0 has 3 as number 0, the input has 1"}},
		"moved":     {history{0: {1, 3, 5, 4}, 1: {2}}, []string{"moved: 4 of partition 1 is in partition 0"}},
		"foreign":   {history{0: {1, 3, 5}, 1: {2, 4, 9}}, []string{"foreign: 9 in partition 1 was never an input"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := violations(input, c.copied); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
