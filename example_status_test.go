package holdfast_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

// A readiness probe asks Status. Ready is for a program that has something to start once the states are there.
func ExampleFlow_Status() {
	s := open("visits")
	defer s.close()
	s.produce("visits", "ann home", "bob home", "ann cart")

	committed := make(chan struct{})
	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka: s.Kafka(), Group: "last-page", Inputs: []string{"visits"}, Snapshots: created, Codec: codec.String(),
		Commit: often,
		Fold: func(_ context.Context, k *holdfast.Key[string], r stream.Record) error {
			k.Set(string(r.Value))
			return nil
		},
		Hooks: []holdfast.Hooks{{Committed: func(e stream.Committed) {
			if e.Next == 3 {
				close(committed)
			}
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	probe := func(w http.ResponseWriter, _ *http.Request) {
		if s := flow.Status(); !s.Ready {
			http.Error(w, s.String(), http.StatusServiceUnavailable)
		}
	}
	ask := func() int {
		answer := httptest.NewRecorder()
		probe(answer, nil)
		return answer.Code
	}
	fmt.Println("before Run:", ask())
	ran := make(chan error, 1)
	go func() { ran <- flow.Run(s.ctx) }()
	select {
	case <-flow.Ready():
		fmt.Println("ready:", ask())
	case err := <-ran: // it ended before
		fmt.Println(err)
		return
	}
	<-committed
	p := flow.Status().Partitions[0]
	fmt.Printf("%s/%d %s: next %d, keys %d\n", p.Topic, p.Partition, p.Phase, p.Next, p.Keys)
	s.stop()
	fmt.Println("run:", <-ran)
	fmt.Println("after Run:", ask())
	// Output:
	// before Run: 503
	// ready: 200
	// visits/0 folding: next 3, keys 2
	// run: <nil>
	// after Run: 503
}
