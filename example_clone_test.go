package holdfast_test

import (
	"context"
	"fmt"
	"maps"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

// A state that holds references, here a map, is changed in place. Clone is what a step that fails is undone
// with: of the record that is skipped nothing remains.
func ExampleConfig_clone() {
	s := open("visits")
	defer s.close()
	s.produce("visits", "ann home", "ann help", "ann ?", "ann home")

	flow, err := holdfast.New(holdfast.Config[map[string]int]{
		Kafka:     s.Kafka(),
		Group:     "visitors",
		Inputs:    []string{"visits"},
		Snapshots: created,
		Codec:     codec.JSON[map[string]int](),
		Clone:     maps.Clone[map[string]int],
		Fold: func(_ context.Context, k *holdfast.Key[map[string]int], r stream.Record) error {
			pages, ok := k.State()
			if !ok {
				pages = map[string]int{}
				k.Set(pages)
			}
			pages[string(r.Value)]++
			if string(r.Value) == "?" {
				return fmt.Errorf("no page %q", r.Value)
			}
			return nil
		},
		OnError: func(context.Context, *stream.RecordError) stream.Action { return stream.Skip },
		Commit:  often,
		Hooks:   []holdfast.Hooks{s.until(4)},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	s.show("visitors-snapshots")
	// Output:
	// run: <nil>
	// ann {"help":1,"home":2}
}
