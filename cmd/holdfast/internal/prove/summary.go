package prove

import "github.com/holdfast-go/holdfast/claim"

// summaries tell each exercise in a plain sentence: what was done, and what was seen if its claim is
// proved. What was seen otherwise is the Why of the outcome.
var summaries = map[string]struct{ done, seen string }{
	claim.ProveSends: {
		"One event was sent twice, and for another one the answer was cut off, so that the client sent it again by itself",
		"the first is in the topic twice, the other one once",
	},
	claim.ProveAborted: {
		"Records were written in a transaction that was aborted, and then again in one that was committed",
		"a read_committed reader got only the committed ones",
	},
	claim.ProveFencing: {
		"A second process took over the transactional id of a running writer",
		"all that the writer sent after that was refused, none of it became visible, and the writer stopped by itself",
	},
	claim.ProveGeneration: {
		"Offsets were committed under a generation that had passed, and as a member that the group does not know",
		"both were refused, and the live member committed on",
	},
	claim.ProveTakeover: {
		"An owner left a transaction open, and the next owner took the partition over",
		"that transaction was aborted, and the old owner's late commit was refused",
	},
}

// summary is the sentence of an outcome, "" where the exercise showed nothing.
func summary(name string, v Verdict) string {
	s := summaries[name]
	switch v {
	case Proved:
		return s.done + ": " + s.seen + "."
	case Refuted:
		return s.done + "."
	}
	return ""
}
