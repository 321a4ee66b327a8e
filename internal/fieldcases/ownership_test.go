package fieldcases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// Public case A5: the group goes from three members to two and on to four while a process is stopped
// with a commit on its way. Whoever has its partitions then, however many members there are, has
// initialised the same ids, of which there are as many as partitions: the commit is refused when it comes.
func TestCaseA5ResizedGroupFencesTheStoppedProcess(t *testing.T) {
	t.Parallel()
	l := newLab(t, 4)
	l.guarantee = holdfast.FencedOutputs
	l.writeAll(6)
	zombie := l.start("zombie", l.config())
	l.start("b", l.config())
	leaver := l.start("c", l.config())
	l.owning(zombie, leaver)
	l.reach()
	zombie.link.stop(kmsg.EndTxn)
	l.writeAll(6)
	<-zombie.link.stopped
	expelled := l.expelled("zombie")
	l.await("the group has two members", expelled)
	l.start("d", l.config())
	l.must(leaver.end())
	l.start("e", l.config())
	l.start("f", l.config())
	l.await("the group has four members", l.has(4))
	l.writeAll(6)
	l.reach()
	zombie.link.resume()
	await(zombie, func(lost) bool { return true })
	l.writeAll(6)
	l.finished()
	var want []string
	for p := range l.partitions {
		want = append(want, fence.TransactionalID(group, snapshots, p))
	}
	got, err := l.admin.ListTransactions(t.Context(), nil, nil)
	l.must(err)
	ids := slices.DeleteFunc(slices.Sorted(slices.Values(got.TransactionalIDs())), func(id string) bool { return strings.Contains(id, "-probe-") })
	if !slices.Equal(ids, slices.Sorted(slices.Values(want))) {
		t.Errorf("the ids are %q, want one a partition: %q", ids, want)
	}
}

// owning waits until each of the members owns a partition.
func (l *lab) owning(rs ...*run) {
	l.t.Helper()
	for _, r := range rs {
		await(r, func(stream.Restored) bool { return true })
	}
}

// expelled reports whether the group does not have a member any more.
func (l *lab) expelled(name string) func() bool {
	return func() bool {
		info := l.cluster.GroupInfo(group)
		return info != nil && !slices.ContainsFunc(info.Members, func(m kfake.GroupMember) bool { return m.ClientID == name })
	}
}

// Public case A7: two applications on one cluster read the same topic, each with the defaults. Their
// transactional ids differ, and neither fences the other.
func TestCaseA7TwoApplicationsWithDefaults(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	l.writeAll(20)
	var apps []*run
	for _, name := range []string{"one", "two"} {
		apps = append(apps, l.start(name, holdfast.Config[tally]{
			Kafka: l.k, Group: name, Inputs: []string{input}, Outputs: []string{output}, Fold: fold, Codec: l.config().Codec,
			Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Guarantee: holdfast.FencedOutputs,
		}))
	}
	for range 3 {
		for _, r := range apps {
			for p := range l.partitions {
				r.committedTo(p, int64(l.written[p]))
			}
		}
		l.writeAll(5)
	}
	for _, r := range apps {
		l.must(r.end())
		if refused := all[stream.Refused](r); len(refused) > 0 {
			t.Errorf("%s was refused: %v", r.name, refused[0].Err)
		}
		if gone := all[lost](r); len(gone) > 0 {
			t.Errorf("%s lost a partition: %v", r.name, gone[0].Cause)
		}
	}
}

// Public case A10: a step that takes longer than the session does not cost the membership. The record
// is folded once, in one ownership. A member whose heartbeats do not arrive meanwhile shows that the
// group would have noticed.
func TestCaseA10FoldLongerThanTheSession(t *testing.T) {
	t.Parallel()
	for _, beats := range []bool{true, false} {
		t.Run(fmt.Sprintf("heartbeats %t", beats), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1)
			c := l.config()
			c.Member = holdfast.Member{SessionTimeout: time.Second, HeartbeatInterval: 50 * time.Millisecond, RebalanceTimeout: 3 * time.Second}
			entered, finish, calls := make(chan struct{}, 9), make(chan struct{}), make(chan int64, 99)
			c.Fold = func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
				calls <- r.Offset
				entered <- struct{}{}
				select {
				case <-finish:
				case <-ctx.Done():
					return ctx.Err()
				}
				return fold(ctx, k, r)
			}
			l.write(0, 1)
			pulse := l.pulse()
			r := l.start("slow", c)
			<-entered
			if !beats {
				r.link.stop(kmsg.Heartbeat)
				l.await("the group has expelled the member", l.expelled("slow"))
				r.link.resume()
				await(r, func(lost) bool { return true })
				close(finish)
				l.reach()
				return
			}
			beat := l.observe(nil, kmsg.Heartbeat)
			l.wait(beat, 40) // two sessions of them
			close(finish)
			l.reach()
			l.must(r.end())
			if n := len(all[stream.Assigned](r)); (n != 1 || len(calls) != 1) && !pulse.excuses(r, c.Member.SessionTimeout) {
				t.Errorf("%d ownerships and %d calls, want one of each", n, len(calls))
			}
		})
	}
}
