// Package holdfasttest is a test kit for programs that are built on Holdfast: a broker for tests, a
// recorder for what a member sees, and a checker that judges a whole run.
//
// The checker takes a History: the input, snapshot and output topics with the fate of each record,
// the committed offsets, and the members' logs. It folds the input again with the program's own fold,
// recomputes every state and every output, and names each invariant that the history breaks:
//
//	I1  a committed offset is never ahead of the snapshots
//	I2  a state is the fold of the accepted records up to its applied offset, each once, in order
//	I3  no write of an owner becomes visible after a later owner's
//	I4  outputs are what the steps give, in the order of the steps of a key: each once in a
//	    transaction, at least once otherwise
//	I5  nothing that was aborted is ever read or told as committed
//	I6  every wait ends with a named cause
//	I7  the committed offset reaches the end of the input, or the run says why not
//	I8  no commit without a generation, a member and a place in its owner's sequence
//
// A test on a cluster:
//
//	rec := holdfasttest.NewRecorder("one", nil)
//	conf = holdfasttest.Watch(rec, conf)
//	// … run flows of conf, and whatever is to happen to them …
//	holdfasttest.Verify(t, holdfasttest.Flow(conf), rec.Member())
//
// Verify is strict about what is missing: a record that no step explains, an offset without input, an
// ownership without an end are violations like wrong values.
package holdfasttest
