package holdfast

import "github.com/holdfast-go/holdfast/stream"

// Status is what a flow or a pipe was doing when it was asked.
type Status = stream.Status

// Status says what the flow is doing: its membership, and of each partition the phase, the offsets, the keys in
// memory and what went wrong last. It may be called at any time, before Run and after it too, from hooks, and by
// several goroutines. It asks no broker, calls none of your functions and waits for none.
func (f *Flow[S]) Status() Status { return f.job.Status() }

// Ready is closed when Status.Ready is true for the first time: the group has given this member its partitions,
// and all of them are restored. It stays closed; a rebalance later on shows in Status. A member that joins a
// running group may be given no partition at first, which counts too. Where Run ends before, it is never closed:
// wait for both.
func (f *Flow[S]) Ready() <-chan struct{} { return f.job.Ready() }
