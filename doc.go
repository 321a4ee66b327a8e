// Package holdfast is stateful stream processing on Kafka: a flow folds the records of a topic into
// one state per key, and each partition has one writer.
//
// A [Flow] is one consumer group. Each of its members owns some partitions of the input topic,
// restores their states from a compacted snapshot topic, folds records into them, and writes
// snapshots and the input offset in one transaction that the broker refuses from anybody but the
// present owner. A process that still believes that it owns a partition (a stalled one, one cut off
// from the network, one that was stopped and woken) cannot overwrite newer state.
//
// What is promised, and where it ends, is in the table of package claim and in docs/concepts.md:
// under [FencedState] the state of a key is the result of the input up to its applied offset, each
// record once, for readers with read_committed and without unclean leader elections; outputs are
// at-least-once.
//
// Reading order: [Config], [Key], [Flow], then package fence for the writer below it.
package holdfast
