package member

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/stream"
)

// alone makes sure that the group has no members of another application (R31), before a partition is begun that
// has no progress record of this one. Nothing else would tell the two apart: their transactional ids differ, and
// each restores nothing for what the other has folded.
//
//  1. A and B read one topic in one group, and keep their states in two. Both start, and the group is new.
//  2. A is given one half of the partitions, B the other. Neither finds an offset.
//  3. Each folds its half. The other half of its states is with the other.
//
// Who goes on from offset and progress record that agree is not asked: of two that are there, it is the one that
// was there before.
func (w *worker) alone(ctx context.Context) error {
	others, err := w.m.group.Others(ctx, w.own.MemberID())
	if err != nil {
		return w.located(err)
	}
	for _, other := range others {
		return w.located(w.m.otherApplication(w.m.cfg.Session.Application.Beside(other)))
	}
	return nil
}

func (m *Member) otherApplication(err error) *stream.Error {
	return stream.NewError("join", err).Hinted("give each application a group of its own: name another Group here")
}

// noticeOthers says once, of a member that goes on where it was, that another application is in its group. Each
// goes on; but they rebalance each other, and the first partition that is new to both is begun by neither.
func (m *Member) noticeOthers(w *worker) {
	m.noticed.Do(func() {
		m.wg.Go(func() {
			others, err := m.group.Others(w.ctx, w.own.MemberID())
			if err != nil {
				return // the ownership ends, or the next start finds out why
			}
			var names []string
			for _, other := range others {
				names = append(names, fmt.Sprint(m.cfg.Session.Application.Beside(other)))
			}
			if len(names) > 0 {
				m.log.Warn("another application is in the group", "error", errors.New(strings.Join(names, "; ")))
			}
		})
	})
}
