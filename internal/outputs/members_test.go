package outputs

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

// Members join, leave and are killed while records come: outputs are those of the input, each once and
// in the order of its key's steps, whoever made them.
// Public case A6.
func TestKafkaMembersComeAndGo(t *testing.T) {
	const partitions, rounds, portion = 4, 4, 60
	for _, what := range kinds {
		for _, concurrency := range []int{1, 4} {
			if what == isFlow && concurrency > 1 {
				continue // a flow has one call at a time
			}
			t.Run(fmt.Sprintf("%s of %d", what, concurrency), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, kafkatest.Start(t), what, partitions)
				l.conf.Concurrency = concurrency
				load := func(round int) {
					for p := range int32(partitions) {
						l.produce(p, round*portion, (round+1)*portion)
					}
				}
				w := newTap(t, l.k)
				load(0)
				first := l.start(t.Context(), "first", l.conf)
				second := l.start(t.Context(), "second", l.conf)
				await(first, 0, anyOf[stream.Assigned])
				await(second, 0, anyOf[stream.Assigned])
				load(1)
				child := l.child(w)
				child.Await(t, "restored", patience)
				load(2)
				child.Await(t, "committed", patience)
				first.stop()
				if err := child.Kill(); err != nil {
					t.Fatal(err)
				}
				load(3)
				third := l.start(t.Context(), "third", l.conf)
				await(third, 0, anyOf[stream.Assigned])
				l.awaitCommitted(rounds * portion)
				second.stop()
				third.stop()
				w.orderly()
				l.verify()
			})
		}
	}
}
