//go:build synctests

package virtual

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// TestLeaderIsAway cuts a member off from the leader of what its transactions write to, while all else answers. Run
// ends within a bound, by the name of what is away, and not as if there were too many records.
func TestLeaderIsAway(t *testing.T) {
	t.Parallel()
	const stalled = "the leader did not tell where the log ends"
	for _, c := range []struct {
		name    string
		setting setting
		topic   string
		how     outage
		want    error
		says    string
		least   time.Duration
	}{
		// After two minutes the partition is granted anew, and its restore says who does not answer.
		{"snapshots, silent", setting{}, group + "-snapshots", silent, stream.ErrRestoreStalled, stalled, 0},
		{"snapshots, refusing", setting{}, group + "-snapshots", refusing, stream.ErrRestoreStalled, stalled, 0},
		{"progress of a pipe", setting{Pipe: true}, group + "-progress", silent, stream.ErrRestoreStalled, stalled, 0},
		{"snapshots with outputs", setting{Guarantee: holdfast.FencedOutputs}, group + "-snapshots", silent, stream.ErrRestoreStalled, stalled, 0},
		{"outputs of a pipe", setting{Pipe: true}, output, silent, stream.ErrUnreachable, `the leader of a partition of ["balances"] is away`, 5 * time.Minute},
		{"outputs of a flow", setting{Guarantee: holdfast.FencedOutputs}, output, refusing, stream.ErrUnreachable, `the leader of a partition of ["balances"] is away`, 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := c.setting
			prompt(&s)
			s.Brokers = 3
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, s, 1, newStates())
				m := w.start("m")
				w.send(few(20)...)
				w.committed(time.Minute)
				away := w.alone(c.topic)
				time.Sleep(time.Minute) // the member has learned who leads
				for _, host := range []string{"127.0.0.1", "localhost"} {
					m.link.cut(fmt.Sprintf("%s:%d", host, w.ports[away]), c.how)
				}
				began := time.Now()
				w.send(few(20)...)
				w.endsWith(m, c.want, began, c.least, 15*time.Minute)
				if m.err == nil || !strings.Contains(m.err.Error(), c.says) || errors.Is(m.err, stream.ErrTooSlow) {
					t.Errorf("I6: the end does not name what is away: %v", m.err)
				}
				m.link.heal()
				w.start("next")
				w.committed(2 * time.Minute)
				w.end()
				w.close()
			})
		})
	}
}

// alone moves partition 0 of a topic to a broker that is no coordinator of the group, and leads nothing else.
func (w *world) alone(topic string) (broker int32) {
	w.t.Helper()
	id := fence.TransactionalID(group, w.progressTopic(), 0)
	for broker == w.cluster.CoordinatorFor(id) || broker == w.cluster.CoordinatorFor(group) {
		broker++
	}
	for _, one := range []string{input, output, rejects, w.progressTopic()} {
		to := (broker + 1) % 3
		if one == topic {
			to = broker
		}
		if err := w.cluster.MoveTopicPartition(one, 0, to); err != nil {
			w.broken("move a partition", err)
		}
	}
	return broker
}
