package claim

// pipeBoundary is what every claim of a pipe is inside of.
const pipeBoundary = "one Kafka cluster, its input, progress, output and offsets topics" + replication

// Pipe returns the claims of a pipe on a cluster whose finalized feature transaction.version is
// transactionVersion (0 if it has none or it is not known).
func Pipe(transactionVersion int) []Claim {
	c := Claim{
		Hop:       HopTopicTopic,
		Component: ComponentPipe,
		Statement: "exactly-once inside Kafka, for read_committed readers: the outputs of a record become visible together with the offset " +
			"that is past it, or not at all; in one output partition, those of an input partition in the order of its records; a stale owner cannot write",
		Crash: crashes,
		Boundary: pipeBoundary + "; for readers of the output topics that set isolation.level=read_committed; " +
			"not a call that the function makes to another system",
	}
	if transactionVersion < 2 {
		c.Weaker = weakOutputs
	}
	return []Claim{c}
}
