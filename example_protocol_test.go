package holdfast_test

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
)

// ServerSide has the broker assign the partitions (KIP-848). The session timeout is the group's
// configuration at the brokers; the line "member timings" of the log tells it.
func ExampleMember_protocol() {
	s := open("numbers")
	defer s.close()
	s.produce("numbers", "ann 1", "ann 2", "bob 3")

	flow, err := holdfast.New(holdfast.Config[int]{
		Kafka:     s.Kafka(),
		Group:     "sums",
		Inputs:    []string{"numbers"},
		Snapshots: created,
		Codec:     codec.JSON[int](),
		Fold:      sum,
		Member:    holdfast.Member{Protocol: holdfast.ServerSide},
		Commit:    often,
		Hooks:     []holdfast.Hooks{s.until(3)},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	s.show("sums-snapshots")
	// Output:
	// run: <nil>
	// ann 3
	// bob 3
}
