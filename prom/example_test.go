package prom_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/prom"
	"github.com/holdfast-go/holdfast/stream"
)

// The hooks go into Config.Hooks of a flow or a pipe. Here the example reports a commit itself, as a flow would.
func ExampleNew() {
	reg := prometheus.NewRegistry()
	hooks, err := prom.New(reg, prom.Options{ConstLabels: prometheus.Labels{"group": "ledger"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	hooks.Committed(stream.Committed{Partition: stream.Partition{Topic: "payments", Partition: 3}, Next: 42, Writes: 2})

	families, err := reg.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		if f.GetName() == "holdfast_snapshot_writes_total" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: holdfast_snapshot_writes_total 2
}
