//go:build synctests

package virtual

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// A member of a KIP-848 group is asked to end while its assigned callback waits for a takeover, and after a
// heartbeat has taken other partitions away: the client has forgotten these, and calls back for none of them.
// Each ownership ends all the same (R24).
func TestEndInAnAssignedCallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setting{
			Partitions: 4, Brokers: 1,
			Member:     holdfast.Member{Protocol: fence.ServerSide, RebalanceTimeout: time.Minute},
			BrokerConf: map[string]string{"group.consumer.session.timeout.ms": "10000", "group.consumer.heartbeat.interval.ms": "500"},
		}, 1, newStates())
		is := func(kind string) func(holdfasttest.Event) bool {
			return func(e holdfasttest.Event) bool { return e.Kind == kind }
		}
		second := w.start("second")
		second.await(time.Minute, "the first owner has the partitions", is(holdfasttest.EventRestored))
		m := w.start("m")
		m.await(time.Minute, "half of them are the member's", is(holdfasttest.EventRestored))
		time.Sleep(5 * time.Second)
		began := m.count(holdfasttest.EventAssigned)
		m.link.setSlow(kmsg.InitProducerID, 15*time.Second) // a takeover takes as long
		second.asked = true
		second.cancel()
		<-second.done
		time.Sleep(3 * time.Second) // the callback of the other half is under way
		third := w.start("third")
		time.Sleep(3 * time.Second) // a heartbeat has taken some away again
		if n := m.count(holdfasttest.EventAssigned); n != began {
			t.Errorf("the takeover did not last: %d grants, want %d", n, began)
		}
		m.asked = true
		m.cancel()
		<-m.done
		m.link.setSlow(kmsg.InitProducerID, 0)
		third.await(time.Minute, "the next owner has them", is(holdfasttest.EventRestored))
		w.end()
		w.close()
	})
}

// quick is how long an end may take without brokers: below the 30 s that orchestrators give by default.
const quick = 25 * time.Second

// A member without anything to commit ends at once when the brokers are silent: nothing is waited for that
// nobody needs. One that has folded tries to commit, for a bounded time.
func TestEndWithSilentBrokers(t *testing.T) {
	for name, c := range map[string]struct {
		send bool
		most time.Duration
	}{"idle": {false, 6 * time.Second}, "with something to commit": {true, quick}} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *setting) { s.Commit.Interval = time.Minute }, func(t *testing.T, w *world) {
				m := w.start("m")
				w.send(few(5)...)
				m.await(3*time.Minute, "the flow has committed", func(e holdfasttest.Event) bool { return e.Kind == holdfasttest.EventCommitted })
				time.Sleep(3 * time.Minute)
				if c.send {
					w.send(few(5)...)
					time.Sleep(5 * time.Second)
				}
				m.link.cut("", silent)
				time.Sleep(time.Second)
				m.asked = true
				began := time.Now()
				m.cancel()
				<-m.done
				took := time.Since(began)
				if took > c.most {
					t.Errorf("I6: the end took %v, want at most %v", took, c.most)
				}
				m.link.heal()
				w.start("next") // what was not committed is folded again
				w.committed(3 * time.Minute)
			})
		})
	}
}
