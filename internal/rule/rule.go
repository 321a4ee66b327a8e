// Package rule names the rules that a test or the demo may switch off, so that it can be shown what
// each of them prevents. A rule is switched off for one run by a value in its context; there is no
// global switch and no public way to reach one.
package rule

import (
	"context"
	"slices"
)

// Name is one rule that can be switched off.
type Name string

// The rules, named for what they do; the number is the one of docs/ARCHITECTURE.md.
const (
	GrantID        Name = "grant-id"         // R2: the offset is sent under the grant's member id, ids are compared
	Probe          Name = "group-probe"      // R4: the group has answered before InitProducerID
	RestoreBound   Name = "restore-bound"    // R12: restore to the high watermark, not to the last stable offset
	RevokeTeardown Name = "revoke-teardown"  // R13: the revoke callback returns after the teardown
	OwnershipTag   Name = "ownership-tag"    // R14: batches carry the ownership number
	FreshSession   Name = "fresh-session"    // R16: no output without a heartbeat within the session
	Holds          Name = "holds"            // R17: the committed offset respects holds
	OutputsFirst   Name = "outputs-first"    // R18: outputs are acknowledged before the snapshot
	OutputsInside  Name = "outputs-inside"   // FencedOutputs: outputs are in the transaction of their offset
	TwoWriteDelete Name = "two-write-delete" // R20: deleted-at state first, tombstone later
	AppliedSkip    Name = "applied-skip"     // a replay skips what a key has applied
	StableFetch    Name = "stable-fetch"     // R12: the committed offset is fetched stable
	Takeover       Name = "takeover"         // R12: the transactional id is initialised at assignment
	ReadBack       Name = "read-back"        // R5: an unknown outcome is read back
	SecondWitness  Name = "second-witness"   // R23's table: the progress record is compared with the committed offset
	SameLog        Name = "same-log"         // R21: what is written comes behind what is known to be there
	NoneBetween    Name = "none-between"     // I3: nobody has committed between the last known commit and the first write behind it
	FenceProbe     Name = "fence-probe"      // before a fenced start the broker has to refuse a stale generation
	FencedBinding  Name = "fenced-binding"   // the offset is bound to the transaction
	RetainedCheck  Name = "retained-check"   // a state that was kept over a rebalance is compared with Kafka before it is used
)

type key struct{}

// before are the rules that NoneBetween stands behind: they keep an owner from beginning at a commit that
// is not the last one, and where one of them fails its first write would still find that out.
var before = []Name{
	GrantID, RestoreBound, RevokeTeardown, StableFetch, Takeover, ReadBack, SecondWitness, FencedBinding, RetainedCheck,
}

// Off returns the rules that are off when the named ones are to be missed: NoneBetween goes with those that
// it stands behind, since it would hide what they prevent.
func Off(names ...Name) []Name {
	if slices.ContainsFunc(names, func(n Name) bool { return slices.Contains(before, n) }) && !slices.Contains(names, NoneBetween) {
		return append(slices.Clone(names), NoneBetween)
	}
	return names
}

// Without returns a context under which the named rules are switched off, with those that go with them.
func Without(ctx context.Context, names ...Name) context.Context {
	off := map[Name]bool{}
	if old, ok := ctx.Value(key{}).(map[Name]bool); ok {
		for n := range old {
			off[n] = true
		}
	}
	for _, n := range Off(names...) {
		off[n] = true
	}
	return context.WithValue(ctx, key{}, off)
}

// On reports whether the rule is in force, which it is unless Without switched it off.
func On(ctx context.Context, n Name) bool {
	off, _ := ctx.Value(key{}).(map[Name]bool)
	return !off[n]
}
