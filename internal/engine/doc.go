// Package engine is one partition as a pure state machine: records in, states, outputs and commit
// batches out. It has no clock, I/O, goroutine, lock or logger; the caller passes the time in and
// carries the effects out. One goroutine drives an Engine: none of its methods is safe for
// concurrent use.
//
// The order of calls is: Load for each snapshot in log order, Start once, then Step and Skip for
// records in offset order, and between them Close, which builds a Batch of encoded bytes. One batch
// is in flight at most, and folding goes on meanwhile. Its outcome is told by exactly one of
// Committed, Aborted and Refused.
//
// # Holds
//
// A hold is the oldest input offset folded into a key and not yet persisted. The offset that a
// batch commits is the least hold of all keys, except the holds that the batch itself clears; if
// there is none, the next offset to fold. So a committed offset is never ahead of the snapshots.
// A key has at most two holds: one that a batch in flight will clear, and a fresh one for what was
// folded since. All holds are nodes of one list. Offsets rise, so that each node is appended at the
// back, never moves, and the front is the least: no scan over keys is ever needed.
//
// # Whole batches
//
// With Config.Whole a batch is all that was done since the one before it: outputs, every dirty key,
// tombstones, and the next offset to fold. Holds are then cleared by each batch, so that what is
// committed is never less than what was folded. Nothing is folded past a batch that has reached a
// bound, and a batch that cannot be committed as it is ends the engine: the state goes back to the
// last committed one by a restore.
//
// # What there is room for
//
// Several inputs make the applied offset a vector: it is compared in Step and in exhume alone. A
// timer firing is a step without a record: it enters at fold, past the admission of offsets, and
// dirties its key without a hold, which queue and hold list already tell apart.
package engine
