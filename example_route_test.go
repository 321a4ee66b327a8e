package holdfast_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

// Route takes the key from the record's value and leaves out what does not concern the flow.
func ExampleConfig_route() {
	s := open("requests")
	defer s.close()
	s.produce("requests", "1 GET /cart", "2 GET /cart", "3 PUT /cart", "4 GET /home")

	flow, err := holdfast.New(holdfast.Config[int]{
		Kafka:     s.Kafka(),
		Group:     "reads",
		Inputs:    []string{"requests"},
		Snapshots: created,
		Codec:     codec.JSON[int](),
		Route: func(r stream.Record) (key []byte, ok bool) {
			return bytes.CutPrefix(r.Value, []byte("GET "))
		},
		Fold: func(_ context.Context, k *holdfast.Key[int], r stream.Record) error {
			count, _ := k.State()
			k.Set(count + 1)
			return nil
		},
		Commit: often,
		Hooks:  []holdfast.Hooks{s.until(4)},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	s.show("reads-snapshots")
	// Output:
	// run: <nil>
	// /cart 2
	// /home 1
}
