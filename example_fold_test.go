package holdfast_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

// A flow counts the visits of each visitor.
func Example() {
	s := open("visits")
	defer s.close()
	s.produce("visits", "ann home", "bob home", "ann cart")

	flow, err := holdfast.New(holdfast.Config[int]{
		Kafka:     s.Kafka(),
		Group:     "visit-counts",
		Inputs:    []string{"visits"},
		Snapshots: created,
		Codec:     codec.JSON[int](),
		Fold: func(_ context.Context, k *holdfast.Key[int], r stream.Record) error {
			count, _ := k.State()
			k.Set(count + 1)
			return nil
		},
		Commit: often,
		Hooks:  []holdfast.Hooks{s.until(3)},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	s.show("visit-counts-snapshots")
	// Output:
	// run: <nil>
	// ann 2
	// bob 1
}
