package claim

// crashes are those that a claim about a process and its cluster holds across.
const crashes = "the process or its host ends at any point, between any two requests to Kafka; its connections are cut " +
	"or its answers lost; it is paused and wakes after another process has taken over; a broker restarts or a leader moves"

// unfencedCrashes are those that are left where nothing refuses a stale owner.
const unfencedCrashes = "the process or its host ends at any point; its connections are cut; a broker restarts or a leader moves"

// replication is what every claim supposes of the topics that it names.
const replication = ", replicated, without unclean leader election and without loss of acknowledged records"

// boundary is what every claim of a flow is inside of.
const boundary = "one Kafka cluster, its input, snapshot and offsets topics" + replication

// foldOutside is what a fold can do that no transaction of Kafka holds.
const foldOutside = "not a call that the fold makes to another system, and not a fold that reads the clock or other input"

// weakTransactions is the condition that transaction.version 1 brings.
const weakTransactions = weakBegin + "so that an offset may become visible without its snapshot" + weakEnd

// weakOutputs is the same for outputs in the transaction.
const weakOutputs = weakBegin + "so that an offset may become visible without the outputs of its records" + weakEnd

const (
	weakBegin = "the cluster has transaction.version < 2 (brokers before 4.0, or upgraded without raising the feature): " +
		"an end-of-transaction request that the network held back can end a later transaction of the same producer epoch, "
	weakEnd = "; a process that was refused takes its partition over afresh, which narrows this and does not close it"
)

// Flow returns the claims of a flow under a guarantee, FencedState, FencedOutputs or Unfenced, on a
// cluster whose finalized feature transaction.version is transactionVersion (0 if it has none or it is
// not known). It returns nil for any other guarantee: what is not claimed is not printed.
func Flow(guarantee string, transactionVersion int) []Claim {
	switch guarantee {
	case FencedState:
		return fencedState(transactionVersion)
	case FencedOutputs:
		return fencedOutputs(transactionVersion)
	case Unfenced:
		return unfenced()
	}
	return nil
}

// state is what both fenced guarantees promise of the state.
func state(guarantee string, transactionVersion int) Claim {
	c := Claim{
		Hop:       HopTopicState,
		Component: ComponentFlow,
		Guarantee: guarantee,
		Statement: "the state of a key is the result of its records up to its applied offset, each applied once, in offset order; " +
			"the committed offset is never ahead of the snapshots; a stale owner cannot write",
		Crash: crashes,
		Boundary: boundary + "; for readers of the snapshot topic that set isolation.level=read_committed; " +
			foldOutside,
	}
	if transactionVersion < 2 {
		c.Weaker = weakTransactions
	}
	return c
}

func fencedState(transactionVersion int) []Claim {
	outputs := Claim{
		Hop:       HopTopicTopic,
		Component: ComponentFlow,
		Guarantee: FencedState,
		Statement: "outputs are at-least-once: each is acknowledged before the snapshot that covers its record can commit, " +
			"and a record that is folded again after a crash emits again",
		Crash:    crashes,
		Boundary: boundary + "; the output topics; a reader that removes repeats does so by a key of its own",
	}
	return []Claim{state(FencedState, transactionVersion), outputs}
}

func fencedOutputs(transactionVersion int) []Claim {
	outputs := Claim{
		Hop:       HopTopicTopic,
		Component: ComponentFlow,
		Guarantee: FencedOutputs,
		Statement: "exactly-once inside Kafka, for read_committed readers: the outputs of a record become visible together with its " +
			"snapshot and with the offset that is past it, or not at all; in one output partition, those of a key in the order of its records",
		Crash:    crashes,
		Boundary: boundary + "; the output topics; for readers of them that set isolation.level=read_committed; " + foldOutside,
	}
	if transactionVersion < 2 {
		outputs.Weaker = weakOutputs
	}
	return []Claim{state(FencedOutputs, transactionVersion), outputs}
}

func unfenced() []Claim {
	return []Claim{{
		Hop:       HopTopicState,
		Component: ComponentFlow,
		Guarantee: Unfenced,
		Statement: "each record is applied at least once, and once to a state that was restored; the committed offset is never ahead " +
			"of the snapshots; a stale owner CAN overwrite newer state with older, and nobody is told",
		Crash:    unfencedCrashes + "; not a process that is paused and wakes after another has taken over",
		Boundary: boundary + "; while no stale owner writes",
	}, {
		Hop:       HopTopicTopic,
		Component: ComponentFlow,
		Guarantee: Unfenced,
		Statement: "outputs are at-least-once: each is acknowledged before the snapshot that covers its record is written, " +
			"and a record that is folded again after a crash emits again",
		Crash:    unfencedCrashes,
		Boundary: boundary + "; the output topics; while no stale owner writes",
	}}
}
