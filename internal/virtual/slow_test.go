//go:build synctests

package virtual

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/stream"
)

// short gives the group timings of seconds, and a revoke budget of one.
func short(s *setting) {
	prompt(s)
	s.Partitions = 2
	s.Member = holdfast.Member{SessionTimeout: 3 * time.Second, HeartbeatInterval: time.Second, RebalanceTimeout: 6 * time.Second, TransactionTimeout: 5 * time.Second}
	s.Commit.RevokeBudget = time.Second
}

// both has a record for each of two partitions.
func both(value string) []record {
	return []record{{partition: 0, key: "a", value: value}, {partition: 1, key: "b", value: value}}
}

// TestSlowFunctionWithinTheMembership has a function take longer than the session, the transaction
// timeout and the rebalance timeout, while nothing happens in the group: the member heartbeats beside
// it, and nothing is lost.
func TestSlowFunctionWithinTheMembership(t *testing.T) {
	each(t, short, func(t *testing.T, w *world) {
		m := w.start("m")
		w.send(both("1")...)
		w.committed(time.Minute)
		m.next(func(context.Context) { time.Sleep(20 * time.Second) })
		w.send(both("2")...)
		w.committed(time.Minute)
		if n := m.count(holdfasttest.EventAssigned); n != 2 {
			t.Errorf("%d grants of 2 partitions: the membership did not last", n)
		}
	})
}

// TestSlowFunctionOutlivesTheRevokeBudget has a partition move while a function is under way that takes
// longer than the revoke budget, and ends after the next owner has committed. The revoke does not wait
// for it, the member keeps its other partition, and nothing of the late function is written.
func TestSlowFunctionOutlivesTheRevokeBudget(t *testing.T) {
	each(t, short, func(t *testing.T, w *world) {
		first := w.start("first")
		w.send(both("1")...)
		w.committed(time.Minute)
		wake := make(chan struct{})
		hold(first, wake, 0, 1)
		w.send(both("2")...)
		time.Sleep(200 * time.Millisecond) // both functions are under way
		joined := time.Now()
		second := w.start("second")
		e := second.await(time.Minute, "grant", is(holdfasttest.EventAssigned))
		// The join waits for the revoke of the first: one heartbeat until it knows, and the budget.
		if took := e.At.Sub(joined); took > w.s.Member.RebalanceTimeout {
			t.Errorf("the partition came after %v: the revoke waited for the function", took)
		}
		revoked := first.await(time.Minute, "revoke", is(holdfasttest.EventRevoked))
		if revoked.Final || revoked.Partition != e.Partition {
			t.Errorf("revoked %+v, want %v with nothing flushed", revoked, e.Partition)
		}
		second.await(time.Minute, "commit of the next owner", func(c holdfasttest.Event) bool {
			return c.Kind == holdfasttest.EventCommitted && c.Partition == e.Partition && c.Offset >= 2
		})
		close(wake)
		w.send(both("3")...)
		w.committed(time.Minute)
		if n := first.count(holdfasttest.EventLost); n > 0 {
			t.Errorf("%d ownerships were lost: the kept partition with them", n)
		}
	})
}

// hold has the functions of the partitions wait until wake is closed. They heed no context.
func hold(m *member, wake <-chan struct{}, partitions ...int32) {
	waits := map[int32]bool{}
	for _, p := range partitions {
		waits[p] = true
	}
	m.gate = func(p int32) {
		if waits[p] {
			<-wake
		}
	}
}

// TestFunctionNeverReturns has a function of one partition never return. The other partition goes on;
// the partition moves to whoever joins; and Run, asked to end, returns within the rebalance timeout with
// an error that names the partition.
func TestFunctionNeverReturns(t *testing.T) {
	each(t, short, func(t *testing.T, w *world) {
		first := w.start("first")
		w.send(both("1")...)
		w.committed(time.Minute)
		wake := make(chan struct{})
		hold(first, wake, 0)
		w.send(both("2")...)
		first.await(time.Minute, "commit of the other partition", func(e holdfasttest.Event) bool {
			return e.Kind == holdfasttest.EventCommitted && e.Partition.Partition == 1 && e.Offset == 2
		})
		w.start("second")
		first.cancel()
		asked := time.Now()
		select {
		case <-first.done:
		case <-time.After(time.Hour):
			t.Fatal("Run has not returned within an hour")
		}
		limit := w.s.Commit.RevokeBudget + w.s.Member.RebalanceTimeout + 5*time.Second
		if took := time.Since(asked); took > limit || !errors.Is(first.err, stream.ErrFold) {
			t.Errorf("Run returned after %v with %v, want ErrFold within %v", took, first.err, limit)
		}
		if place := (*stream.Error)(nil); !errors.As(first.err, &place) || place.Topic != input || place.Partition != 0 {
			t.Errorf("the error does not name partition 0: %v", first.err)
		}
		w.committed(time.Minute)
		close(wake) // the goroutine that was left behind: nothing of it may be written
		w.send(both("3")...)
		w.committed(time.Minute)
	})
}

// TestFunctionNeverReturnsInAStopThatFails has the member fail by itself while a function never returns:
// Run returns what it failed with first.
func TestFunctionNeverReturnsInAStopThatFails(t *testing.T) {
	each(t, short, func(t *testing.T, w *world) {
		first := w.start("first")
		w.send(both("1")...)
		w.committed(time.Minute)
		wake := make(chan struct{})
		hold(first, wake, 0)
		w.send(both("2")...)
		time.Sleep(time.Second)
		first.link.cut("", refusing)
		select {
		case <-first.done:
		case <-time.After(time.Hour):
			t.Fatal("Run has not returned within an hour")
		}
		if !errors.Is(first.err, stream.ErrUnreachable) {
			t.Errorf("Run returned %v, want ErrUnreachable", first.err)
		}
		close(wake)
		w.start("second")
		w.committed(time.Minute)
	})
}
