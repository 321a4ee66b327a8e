package prove

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
)

// The offsets of the exercise. No two are equal, so that each tells where it came from.
const (
	generationBefore  = 10
	generationOld     = 20
	generationUnknown = 30
	generationAfter   = 40
)

// Generation is what became of offsets that were bound to tokens of the past.
type Generation struct {
	Group    string `json:"group"`
	MemberID string `json:"memberID"`
	Old      int32  `json:"oldGeneration"`
	Live     int32  `json:"liveGeneration"`
	// Before was committed under the old generation while it was the live one.
	Before   int64   `json:"committedBefore"`
	Refusals []Stale `json:"stale"`
	Between  int64   `json:"committedBetween"` // after the stale ones
	After    int64   `json:"committedAfter"`   // after the live member committed generationAfter
}

// Stale is one offset that was bound to a stale token, in a transaction that was aborted.
type Stale struct {
	Token      string `json:"token"` // what is stale about it
	MemberID   string `json:"memberID"`
	Generation int32  `json:"generation"`
	Offset     int64  `json:"offset"`
	Answer     string `json:"answer"` // the broker's error; "": it accepted the offset
	Code       int16  `json:"code"`
}

func runGeneration(ctx context.Context, w *world) (observation, error) {
	output, err := w.topic(ctx, generationOutput, nil)
	if err != nil {
		return nil, err
	}
	m, err := w.join(ctx, generationGroup, generationInput)
	if err != nil {
		return nil, err
	}
	defer m.leave(ctx)
	g := Generation{Group: m.group, MemberID: m.own.MemberID()}
	id := w.name(generationID)
	if err := m.commit(ctx, w, id, generationBefore, eventRecord(output, "before")); err != nil {
		return nil, err
	}
	if g.Before, err = w.stable(ctx, m.group, m.input, m.id); err != nil {
		return nil, err
	}
	w.o.note("    making the group begin a new generation")
	old, live, err := m.rebalance(ctx)
	if err != nil {
		return nil, err
	}
	g.Old, g.Live = old.Generation, live.Generation
	stranger := fence.Token{MemberID: w.name("nobody"), Generation: live.Generation}
	w.o.note("    committing with generation %d of %d, then as a member that the group does not know", g.Old, g.Live)
	for _, s := range []struct {
		what  string
		token fence.Token
		next  int64
	}{{"the generation before", old, generationOld}, {"a member that the group does not know", stranger, generationUnknown}} {
		stale, err := m.stale(ctx, w, id, s.token, s.next, eventRecord(output, "stale"))
		if err != nil {
			return g, err
		}
		stale.Token = s.what
		g.Refusals = append(g.Refusals, stale)
	}
	if g.Between, err = w.stable(ctx, m.group, m.input, m.id); err != nil {
		return g, err
	}
	if err := m.commit(ctx, w, id, generationAfter, eventRecord(output, "after")); err != nil {
		return g, err
	}
	g.After, err = w.stable(ctx, m.group, m.input, m.id)
	return g, err
}

// stale binds an offset to a token in a transaction that is aborted whatever the answer is, so that
// even a cluster that accepts it is not given the offset.
func (m *member) stale(ctx context.Context, w *world, id string, t fence.Token, next int64, r *kgo.Record) (Stale, error) {
	s := Stale{MemberID: t.MemberID, Generation: t.Generation, Offset: next}
	cl, err := w.transactional(ctx, id)
	if err != nil {
		return s, err
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return s, err
	}
	if err := write(ctx, cl, r); err != nil {
		return s, err
	}
	err = m.bind(ctx, w, cl, id, t, next)
	if s.Answer, s.Code = code(err); err != nil && s.Answer == "" {
		return s, err
	}
	return s, cl.EndTransaction(ctx, kgo.TryAbort)
}

// groupRefusals are the answers that say that a token is stale. Others say nothing about it.
var groupRefusals = []int16{
	kerr.IllegalGeneration.Code, kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code,
	kerr.FencedMemberEpoch.Code, kerr.StaleMemberEpoch.Code,
}

func (g Generation) judge() (Verdict, string) {
	if g.Before != generationBefore {
		return NotShown, fmt.Sprintf("the live member could not commit: the offset is %d and not %d", g.Before, generationBefore)
	}
	if g.Live <= g.Old {
		return NotShown, fmt.Sprintf("the group did not begin a new generation after %d", g.Old)
	}
	for _, s := range g.Refusals {
		switch {
		case s.Answer == "":
			return Refuted, fmt.Sprintf("the broker accepted offset %d bound to %s", s.Offset, s.Token)
		case !slices.Contains(groupRefusals, s.Code):
			return NotShown, fmt.Sprintf("the answer to an offset bound to %s was %s, which says nothing about the token", s.Token, s.Answer)
		}
	}
	switch {
	case len(g.Refusals) == 0:
		return NotShown, "no stale offset was sent"
	case g.Between != g.Before:
		return Refuted, fmt.Sprintf("after the stale offsets the committed offset is %d and not %d", g.Between, g.Before)
	case g.After != generationAfter:
		return NotShown, fmt.Sprintf("the live member could not commit afterwards: the offset is %d and not %d", g.After, generationAfter)
	}
	return Proved, ""
}

func (g Generation) lines() []string {
	lines := []string{
		fmt.Sprintf("member %s of group %s committed offset %d in generation %d; then the group moved to generation %d", g.MemberID, g.Group, g.Before, g.Old, g.Live),
	}
	for _, s := range g.Refusals {
		answer := "ACCEPTED"
		if s.Answer != "" {
			answer = fmt.Sprintf("refused, %s (%d)", s.Answer, s.Code)
		}
		lines = append(lines, fmt.Sprintf("offset %d bound to %s (generation %d): %s; the transaction was aborted", s.Offset, s.Token, s.Generation, answer))
	}
	return append(lines, fmt.Sprintf("committed offset afterwards: %d; after a commit of %d by the live member: %d", g.Between, generationAfter, g.After))
}
