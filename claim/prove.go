package claim

import "slices"

// ComponentProve is the command that shows a claim on a user's own cluster. What it shows is a property
// of the cluster and of the client that every component writes with.
const ComponentProve = "prove"

// The exercises of the command, in the order in which it runs them.
const (
	ProveSends      = "sends"      // two sends, and one batch that is sent again
	ProveAborted    = "aborted"    // an aborted transaction, then one that commits
	ProveFencing    = "fencing"    // two processes under one transactional id
	ProveGeneration = "generation" // offsets bound to stale tokens
	ProveTakeover   = "takeover"   // an owner that leaves a transaction open
)

// hopEventTopic is where the duplicates of a sender come from.
const hopEventTopic = "application → topic"

// Proofs returns the names of the exercises.
func Proofs() []string {
	return []string{ProveSends, ProveAborted, ProveFencing, ProveGeneration, ProveTakeover}
}

// Prove returns the claim that an exercise of the command shows. ok is false for a name that is none.
func Prove(exercise string) (c Claim, ok bool) {
	i := slices.Index(Proofs(), exercise)
	if i < 0 {
		return Claim{}, false
	}
	return [...]func() Claim{proveSends, proveAborted, proveFencing, proveGeneration, proveTakeover}[i](), true
}

func proveSends() Claim {
	return Claim{
		Hop: hopEventTopic, Component: ComponentProve,
		Statement: "two sends of one event make two records, also with idempotence on; " +
			"a batch that the client sends again by itself makes no second record",
		Crash: "the connection is cut after the broker has answered a batch and before the client reads the answer",
		Boundary: "one producer session (one producer id and epoch) and one partition; not an application that sends again, " +
			"and not a producer that was started anew",
	}
}

func proveAborted() Claim {
	return Claim{
		Hop: HopTopicTopic, Component: ComponentProve,
		Statement: "records of an aborted transaction are hidden from readers with isolation.level=read_committed, and from no others; " +
			"when the same records go again in a transaction that commits, those readers see each of them once",
		Crash: "a transaction is aborted after its records were acknowledged",
		Boundary: "one Kafka cluster, with the replication that the run states; readers that set isolation.level=read_committed; " +
			"not readers with Kafka's default, read_uncommitted",
	}
}

func proveFencing() Claim {
	return Claim{
		Hop: HopTopicState, Component: ComponentProve,
		Statement: "a process whose transactional id another process initialises is refused, and nothing that was refused becomes visible; " +
			"Holdfast's writer stops by itself after 5 refusals in a row without a commit",
		Crash: "a second process initialises the id of a running one, each time in the middle of a transaction",
		Boundary: "what is written in transactions under that id, for readers with isolation.level=read_committed; " +
			"not a call that the process makes to another system",
	}
}

func proveGeneration() Claim {
	return Claim{
		Hop: HopTopicState, Component: ComponentProve,
		Statement: "an offset that is bound to a generation of the past, or to a member that the group does not know, is refused " +
			"and does not become the committed offset; the live member commits on",
		Crash: "the group has rebalanced since the writer read its token",
		Boundary: "offsets that a transaction commits with member id and generation, in a group of the classic protocol; " +
			"not a commit without a member, which no broker checks",
	}
}

func proveTakeover() Claim {
	return Claim{
		Hop: HopTopicState, Component: ComponentProve,
		Statement: "initialising a partition's transactional id aborts the transaction that its last owner left open: " +
			"its records and its offset never become visible, readers wait for it no longer, and its late commit is refused",
		Crash: "an owner is paused or cut off with a transaction open, its offset bound, and wakes after the takeover",
		Boundary: "one Kafka cluster; one transactional id, which every owner of the partition uses; " +
			"for readers with isolation.level=read_committed",
	}
}
