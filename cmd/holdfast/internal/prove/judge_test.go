package prove

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// The worlds of a right cluster: what each exercise sees there.
func rightSends() Sends {
	batch := Header{ProducerID: 7, Epoch: 0, Sequence: 0}
	none := Header{ProducerID: -1, Epoch: -1, Sequence: -1}
	return Sends{First: 0, Again: 1, Found: 2,
		Retried: Retried{Cut: true, Sent: []Header{batch, batch}, Offset: 2, Found: 1},
		Control: Retried{Cut: true, Sent: []Header{none, none}, Offset: 4, Found: 2}}
}

func rightAborted() Aborted {
	return Aborted{Records: 3, Replicas: 3, MinISR: 2,
		AfterAbort:  Seen{Uncommitted: []int64{0, 1, 2}},
		AfterCommit: Seen{Committed: []int64{4, 5, 6}, Uncommitted: []int64{0, 1, 2, 4, 5, 6}, Distinct: 3}}
}

func rightFencing() Fencing {
	f := Fencing{ID: "id", FirstProcess: 100, SecondProcess: 200, Limit: fenceLimit, Stopped: "commit: it is taken",
		StoppedAs: stream.ErrIDTaken.Error(), TookMs: 3000, Before: firstBefore, After: firstBefore, SecondVisible: 1}
	for i := range fenceLimit {
		f.Inits = append(f.Inits, Epoch{ProducerID: 7, Epoch: int16(2 * i)})
		f.Refusals = append(f.Refusals, Refusal{AfterMs: int64(100 * i), Cause: causeEpoch, Code: kerr.InvalidProducerEpoch.Code,
			Answer: kerr.InvalidProducerEpoch.Message, Final: i == fenceLimit-1})
	}
	return f
}

func rightGeneration() Generation {
	return Generation{Group: "g", MemberID: "m", Old: 1, Live: 2, Before: generationBefore, Between: generationBefore, After: generationAfter,
		Refusals: []Stale{
			{Token: "the generation before", MemberID: "m", Generation: 1, Offset: generationOld, Answer: kerr.IllegalGeneration.Message, Code: kerr.IllegalGeneration.Code},
			{Token: "a member that the group does not know", MemberID: "x", Generation: 2, Offset: generationUnknown,
				Answer: kerr.UnknownMemberID.Message, Code: kerr.UnknownMemberID.Code},
		}}
}

func rightTakeover() Takeover {
	return Takeover{ProducerID: 7, OldEpoch: 2, NewEpoch: 4, Open: Ends{HighWatermark: 4, LastStable: 2}, Ended: Ends{HighWatermark: 5, LastStable: 5},
		TookMs: 30, Before: takeoverBefore, Pending: takeoverPending, After: takeoverBefore, Answer: kerr.ProducerFenced.Message, Code: kerr.ProducerFenced.Code,
		Written: takeoverRecords}
}

// changed returns a copy of right that f has changed.
func changed[T any](right T, f func(*T)) T { f(&right); return right }

// judged is a world and what its exercise has to come to in it.
type judged struct {
	name string
	seen observation
	want Verdict
	why  string
}

func sendsWorlds() []judged {
	sends := func(f func(*Sends)) observation { return changed(rightSends(), f) }
	return []judged{
		{"sends", rightSends(), Proved, ""},
		{"sends: a broker that knows events", sends(func(s *Sends) { s.Found = 1 }), Refuted, "two sends of one event made 1 record"},
		{"sends: one offset for both", sends(func(s *Sends) { s.Again = s.First }), Refuted, "at offsets 0 and 0"},
		{"sends: an acknowledged record is gone", sends(func(s *Sends) { s.Found = 0 }), Refuted, "made 0 records"},
		{"sends: without deduplication", sends(func(s *Sends) { s.Retried.Found = 2 }), Refuted, "within its session made 2 records"},
		{"sends: a retry that lost the batch", sends(func(s *Sends) { s.Retried.Found = 0 }), Refuted, "made 0 records"},
		{"sends: nothing was cut", sends(func(s *Sends) { s.Retried.Cut = false }), NotShown, "could be cut off"},
		{"sends: nothing was sent again", sends(func(s *Sends) { s.Retried.Sent = s.Retried.Sent[:1] }), NotShown, "nothing to send again"},
		{"sends: another batch was sent", sends(func(s *Sends) {
			s.Retried.Sent = []Header{s.Retried.Sent[0], {ProducerID: 7, Epoch: 1}}
		}), NotShown, "not the same batch"},
		{"sends: a fault that does nothing", sends(func(s *Sends) { s.Control.Found = 1 }), NotShown, "it shows nothing"},
	}
}

func abortedWorlds() []judged {
	aborted := func(f func(*Aborted)) observation { return changed(rightAborted(), f) }
	return []judged{
		{"aborted", rightAborted(), Proved, ""},
		{"aborted: aborts are ignored", aborted(func(a *Aborted) { a.AfterAbort.Committed = []int64{0, 1, 2} }), Refuted, "saw 3 records of the aborted"},
		{"aborted: there was nothing to abort", aborted(func(a *Aborted) { a.AfterAbort.Uncommitted = nil }), NotShown, "0 of the 3 records"},
		{"aborted: a commit that is not seen", aborted(func(a *Aborted) { a.AfterCommit.Committed, a.AfterCommit.Distinct = nil, 0 }), Refuted, "saw 0 of the 3"},
		{"aborted: a commit that is seen twice", aborted(func(a *Aborted) { a.AfterCommit.Committed = []int64{0, 1, 2, 4, 5, 6} }), Refuted, "saw 6 records where 3"},
	}
}

func fencingWorlds() []judged {
	fencing := func(f func(*Fencing)) observation { return changed(rightFencing(), f) }
	return []judged{
		{"fencing", rightFencing(), Proved, ""},
		{"fencing: the ownership ended first", fencing(func(f *Fencing) { f.StoppedAs = stream.ErrOwnershipLost.Error() }), Proved, ""},
		{"fencing: a world without fences", fencing(func(f *Fencing) {
			f.Refusals, f.Stopped, f.StoppedAs, f.After, f.FirstVisible = nil, "", "", firstRefused, 1
		}), Refuted, "became visible"},
		{"fencing: an offset that got through", fencing(func(f *Fencing) { f.After = firstRefused }), Refuted, "committed offset 2"},
		{"fencing: a record that got through", fencing(func(f *Fencing) { f.FirstVisible = 1 }), Refuted, "1 record"},
		{"fencing: told of a commit that is none", fencing(func(f *Fencing) { f.Stopped, f.StoppedAs = "", "" }), Refuted, "was told that its write is committed"},
		{"fencing: a process that does not stop", fencing(func(f *Fencing) { f.Refusals = append(f.Refusals, f.Refusals...) }), Refuted, "went on after 10 refusals"},
		{"fencing: no second process", fencing(func(f *Fencing) { f.SecondProcess = 0 }), NotShown, "no second process"},
		{"fencing: the same process", fencing(func(f *Fencing) { f.SecondProcess = f.FirstProcess }), NotShown, "no second process"},
		{"fencing: a first that cannot write", fencing(func(f *Fencing) { f.Before = -1 }), NotShown, "could not write by itself"},
		{"fencing: another reason", fencing(func(f *Fencing) { f.Stopped, f.StoppedAs = "no route to host", "" }), NotShown, "no route to host"},
		{"fencing: other refusals", fencing(func(f *Fencing) { f.Refusals = []Refusal{{Cause: "transient"}} }), NotShown, "refused no write"},
		{"fencing: a second that cannot write", fencing(func(f *Fencing) { f.SecondVisible = 0 }), NotShown, "a reader sees 0"},
	}
}

func generationWorlds() []judged {
	generation := func(f func(*Generation)) observation { return changed(rightGeneration(), f) }
	return []judged{
		{"generation", rightGeneration(), Proved, ""},
		{"generation: generations are not checked", generation(func(g *Generation) { g.Refusals[0].Answer, g.Refusals[0].Code = "", 0 }), Refuted, "accepted offset 20"},
		{"generation: members are not checked", generation(func(g *Generation) { g.Refusals[1].Answer, g.Refusals[1].Code = "", 0 }), Refuted, "accepted offset 30"},
		{"generation: a refused offset arrives", generation(func(g *Generation) { g.Between = generationOld }), Refuted, "is 20 and not 10"},
		{"generation: no rebalance", generation(func(g *Generation) { g.Live = g.Old }), NotShown, "did not begin a new generation"},
		{"generation: another answer", generation(func(g *Generation) {
			g.Refusals[0].Answer, g.Refusals[0].Code = kerr.NotCoordinator.Message, kerr.NotCoordinator.Code
		}), NotShown, "NOT_COORDINATOR"},
		{"generation: nothing was sent", generation(func(g *Generation) { g.Refusals = nil }), NotShown, "no stale offset"},
		{"generation: all are refused", generation(func(g *Generation) { g.Before = -1 }), NotShown, "live member could not commit"},
		{"generation: all are refused afterwards", generation(func(g *Generation) { g.After = generationBefore }), NotShown, "could not commit afterwards"},
	}
}

func takeoverWorlds() []judged {
	takeover := func(f func(*Takeover)) observation { return changed(rightTakeover(), f) }
	return []judged{
		{"takeover", rightTakeover(), Proved, ""},
		{"takeover: it does not abort", takeover(func(k *Takeover) { k.Ended = Ends{HighWatermark: 4, LastStable: 2} }), Refuted, "still waited at offset 2 of 4"},
		{"takeover: the late commit is accepted", takeover(func(k *Takeover) { k.Answer, k.Code = "", 0 }), Refuted, "was accepted"},
		{"takeover: its records are visible", takeover(func(k *Takeover) { k.Visible = 2 }), Refuted, "sees 2 records"},
		{"takeover: its offset is committed", takeover(func(k *Takeover) { k.After = takeoverPending }), Refuted, "from 5 to 9"},
		{"takeover: nothing was open", takeover(func(k *Takeover) { k.Open.LastStable = k.Open.HighWatermark }), NotShown, "no transaction was open"},
		{"takeover: nothing was written", takeover(func(k *Takeover) { k.Written = 0 }), NotShown, "0 records"},
	}
}

// TestVerdicts gives each exercise the world of a right cluster, and those that it must not call proved.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(sendsWorlds(), abortedWorlds(), fencingWorlds(), generationWorlds(), takeoverWorlds()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, why := c.seen.judge()
			if got != c.want || (why == "") != (got == Proved) || !strings.Contains(why, c.why) {
				t.Errorf("%s: %q, want %s: %q", got, why, c.want, c.why)
			}
			if len(c.seen.lines()) == 0 {
				t.Error("there is no evidence")
			}
		})
	}
}

// TestAnExerciseThatFailedClaimsNothing whatever it saw, since what is missing in it is not known.
func TestAnExerciseThatFailedClaimsNothing(t *testing.T) {
	t.Parallel()
	failed := errors.New("the network is down")
	for name, seen := range map[string]observation{"right": rightTakeover(), "broken": Takeover{}, "none": nil} {
		out := outcome(claim.ProveTakeover, seen, failed, []string{"one broker"})
		if out.Verdict != NotShown || !strings.Contains(out.Why, failed.Error()) || out.Claim.Weaker != "one broker" {
			t.Errorf("%s: %+v", name, out)
		}
		if (seen == nil) != (len(out.Evidence) == 0) {
			t.Errorf("%s: evidence %v", name, out.Evidence)
		}
	}
	if out := outcome(claim.ProveTakeover, rightTakeover(), nil, nil); out.Verdict != Proved {
		t.Errorf("without an error it came to %s", out.Verdict)
	}
}

// TestEverySummaryIsForItsVerdict: what was seen is told where the claim is proved, and nowhere else.
func TestEverySummaryIsForItsVerdict(t *testing.T) {
	t.Parallel()
	for _, name := range claim.Proofs() {
		s := summaries[name]
		for v, want := range map[Verdict]string{Proved: s.done + ": " + s.seen + ".", Refuted: s.done + ".", NotShown: ""} {
			if got := summary(name, v); got != want || s.done == "" || s.seen == "" {
				t.Errorf("%s, %s: %q, want %q", name, v, got, want)
			}
		}
	}
	if out := outcome(claim.ProveTakeover, rightTakeover(), nil, nil); out.Summary != summary(claim.ProveTakeover, Proved) {
		t.Errorf("an outcome has the summary %q", out.Summary)
	}
	if out := outcome(claim.ProveTakeover, rightTakeover(), errors.New("the network is down"), nil); out.Summary != "" {
		t.Errorf("an exercise that failed has the summary %q", out.Summary)
	}
}

func TestKafkaIsNoImitation(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{"kfake": true, devbroker.ClusterID: true, "": false, "MkU3OEVBNTcwNTJENDM2Qk": false, "kfake-1": false} {
		if got := imitation(id); got != want {
			t.Errorf("%q: %v, want %v", id, got, want)
		}
	}
}

// The rights that are printed are those of the exercises and of nobody else.
func TestGrantsAreOfTheExercisesAlone(t *testing.T) {
	t.Parallel()
	o := Options{Prefix: "holdfast-prove-"}
	id := fence.TransactionalID(name(o.Prefix, newRun(time.Now()), fencingGroup), name(o.Prefix, newRun(time.Now()), fencingState), 0)
	commands := strings.Join(rights(o, kerr.TransactionalIDAuthorizationFailed), "\n")
	granted := 0
	for _, prefix := range regexp.MustCompile(`--transactional-id (\S+)`).FindAllStringSubmatch(commands, -1) {
		if strings.HasPrefix(id, prefix[1]) {
			granted++
		}
		for _, group := range []string{"ledger", "holdfast", "prove", strings.Repeat("g", 45)} {
			if flow := fence.TransactionalID(group, group+"-snapshots", 0); strings.HasPrefix(flow, prefix[1]) {
				t.Errorf("I6: the grant on the prefix %s is one on the ids of a flow, as %s", prefix[1], flow)
			}
		}
	}
	if granted != 1 {
		t.Errorf("%d grants are for the id %s of the exercise, want 1:\n%s", granted, id, commands)
	}
}
