package matrix

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/stream"
)

// A copy that lacks a record, has one twice or has two in another order is told from the input, and what
// was aborted is no part of it.
func TestCopyIsCompared(t *testing.T) {
	t.Parallel()
	log := func(text string) (l holdfasttest.Log) {
		for _, word := range strings.Fields(text) {
			status := holdfasttest.Committed
			if strings.HasPrefix(word, "!") {
				status = holdfasttest.Aborted
			}
			l.Records = append(l.Records, holdfasttest.Record{Record: stream.Record{Key: []byte("k"), Value: []byte(word)}, Status: status})
		}
		return l
	}
	for _, c := range []struct {
		name, copy string
		want       int
	}{
		{"whole", "1 2 3", -1},
		{"with an aborted record", "1 !2 2 3", -1},
		{"lost in the midst", "1 3", 1},
		{"lost at the end", "1 2", 2},
		{"repeated", "1 1 2 3", 1},
		{"repeated at the end", "1 2 3 3", 3},
		{"in another order", "2 1 3", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := differ(committed(log("1 2 3")), committed(log(c.copy))); got != c.want {
				t.Errorf("they differ at %d, want %d", got, c.want)
			}
		})
	}
}
