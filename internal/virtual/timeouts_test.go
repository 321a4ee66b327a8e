//go:build synctests

package virtual

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/stream"
)

// components are the guarantees and the pipe, each of which a timeout must not break.
var components = []struct {
	name    string
	setting setting
}{
	{"FencedState", setting{Guarantee: holdfast.FencedState}},
	{"FencedOutputs", setting{Guarantee: holdfast.FencedOutputs}},
	{"Unfenced", setting{Guarantee: holdfast.Unfenced}},
	{"pipe", setting{Pipe: true}},
}

// each runs a test for the first n components in bubbles of their own, and expects that the checker finds
// nothing.
func each(t *testing.T, change func(*setting), test func(t *testing.T, w *world)) {
	t.Parallel()
	for _, c := range components {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := c.setting
			change(&s)
			watch := time.AfterFunc(5*time.Minute, func() { panic(t.Name() + " has not ended: virtual time may stand still") })
			defer watch.Stop()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, s, 1, newStates())
				test(t, w)
				w.end()
				w.close()
			})
		})
	}
}

// end stops what runs and has the checker judge.
func (w *world) end() {
	w.t.Helper()
	for _, m := range w.stop(endBound) {
		w.t.Errorf("member %s has not ended within %v", m.name, endBound)
	}
	for _, m := range w.members {
		<-m.done
	}
	time.Sleep(endBound) // what was left behind returns, and nothing of it may be written
	_, found := w.judge()
	for _, v := range found {
		if w.expected == "" || !strings.Contains(v.What, w.expected) {
			w.t.Error(v)
		}
	}
	if w.t.Failed() {
		w.t.Logf("what the members told:\n%s", strings.Join(w.trace(), "\n"))
	}
}

// await waits for an event of the member that fits, at most for bound, and returns it.
func (m *member) await(bound time.Duration, what string, fits func(holdfasttest.Event) bool) holdfasttest.Event {
	m.w.t.Helper()
	for until := time.Now().Add(bound); ; {
		for _, e := range m.rec.Member().Events {
			if fits(e) {
				return e
			}
		}
		if time.Now().After(until) {
			m.w.t.Errorf("member %s: no %s within %v:\n%s", m.name, what, bound, strings.Join(m.w.trace(), "\n"))
			return holdfasttest.Event{At: time.Now()}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func is(kind string) func(holdfasttest.Event) bool {
	return func(e holdfasttest.Event) bool { return e.Kind == kind }
}

func (m *member) count(kind string) (n int) {
	for _, e := range m.rec.Member().Events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// committed waits until all that was written is committed.
func (w *world) committed(bound time.Duration) {
	w.t.Helper()
	if left := w.reach(bound); len(left) > 0 {
		w.t.Errorf("%v after %v; %s", left, bound, w.groupText())
	}
}

func few(n int) (rs []record) {
	for i := range n {
		rs = append(rs, record{key: fmt.Sprintf("k%d", i%5), value: fmt.Sprint(i)})
	}
	return rs
}

// prompt commits quickly, so that a test need not wait for the intervals.
func prompt(s *setting) {
	s.Commit.Interval = 100 * time.Millisecond
	if s.Guarantee != holdfast.FencedOutputs && !s.Pipe {
		s.Commit.Persist = 200 * time.Millisecond
	}
}

// TestSessionTimeout cuts an owner off for longer than its session. The partition is another's when the
// session is over and not before, and the owner that was cut off comes back as a member that owns nothing
// of the past.
func TestSessionTimeout(t *testing.T) {
	each(t, prompt, func(t *testing.T, w *world) {
		first := w.start("first")
		w.send(few(20)...)
		w.committed(time.Minute)
		cut := time.Now()
		first.link.cut("", silent)
		second := w.start("second")
		w.send(few(20)...)
		e := second.await(2*time.Minute, "grant", is(holdfasttest.EventAssigned))
		// The second waits for the first as long as the session that the first has announced (10 s); it is
		// counted from the last heartbeat, which may be one interval old. Then the group has to be joined.
		if took := e.At.Sub(cut); took < 7*time.Second || took > 20*time.Second {
			t.Errorf("the partition was granted %v after the cut, want about the session of 10 s", took)
		}
		w.committed(time.Minute)
		first.link.heal()
		first.await(time.Minute, "loss", is(holdfasttest.EventLost))
		w.send(few(20)...)
		w.committed(time.Minute)
	})
}

// TestTransactionTimeout has a commit under way for longer than the broker lets a transaction be open: the
// broker that one of its requests is sent to falls silent at it. The member gives the attempt up when its
// transaction may be aborted, and the broker of the id aborts it; the same member takes the id over again
// and goes on with the same effects.
func TestTransactionTimeout(t *testing.T) {
	t.Parallel()
	for key, cause := range map[kmsg.Key]string{kmsg.TxnOffsetCommit: "transient", kmsg.EndTxn: "unknown"} {
		t.Run(key.Name(), func(t *testing.T) {
			each(t, func(s *setting) {
				prompt(s)
				s.Brokers, s.Member.SessionTimeout, s.Member.TransactionTimeout = 3, 30*time.Second, 5*time.Second
			}, func(t *testing.T, w *world) { w.timedOut(key, cause) })
		})
	}
}

// timedOut cuts a member off at its next request of a key, for longer than its transaction may be open, and
// expects one refusal, for the cause. Unfenced has no transaction: it is cut off at the write of its
// snapshots, and goes on without a refusal.
func (w *world) timedOut(key kmsg.Key, cause string) {
	w.t.Helper()
	fenced, id := w.s.Guarantee != holdfast.Unfenced, fence.TransactionalID(group, w.progressTopic(), 0)
	for w.cluster.CoordinatorFor(id) == w.cluster.CoordinatorFor(group) {
		w.cluster.RehashCoordinators()
	}
	m := w.start("m")
	w.send(few(20)...)
	w.committed(time.Minute)
	if !fenced {
		key = kmsg.Produce
	}
	met := m.link.cutAt(key)
	w.send(few(20)...)
	select {
	case <-met:
	case <-time.After(time.Minute):
		w.broken("lose a request", fmt.Errorf("no %s was sent", key.Name()))
	}
	time.Sleep(12 * time.Second)
	if !fenced {
		cause = ""
	} else if state := w.transaction(id); state != "Empty" && state != "CompleteAbort" {
		w.t.Errorf("the transaction is %q 12 s after its %s was lost, and may be open for 5 s", state, key.Name())
	}
	if got := strings.Join(m.refusals(), ", "); got != cause {
		w.t.Errorf("the commit was refused for %q, want %q", got, cause)
	}
	m.link.heal()
	w.committed(time.Minute)
	if granted, lost := m.count(holdfasttest.EventAssigned), m.count(holdfasttest.EventLost); granted != 1 || lost != 0 {
		w.t.Errorf("%d grants and %d losses, want 1 and 0", granted, lost)
	}
	select {
	case <-m.done:
		w.t.Errorf("Run has ended: %v", m.err)
	default:
	}
}

// refusals are the causes for which commits were refused.
func (m *member) refusals() (causes []string) {
	for _, e := range m.rec.Member().Events {
		if e.Kind == holdfasttest.EventRefused {
			causes = append(causes, e.Cause)
		}
	}
	return causes
}

// transaction is the state of the last one under an id, as the brokers know it.
func (w *world) transaction(id string) string {
	w.t.Helper()
	ts, err := kadm.NewClient(w.client).DescribeTransactions(w.ctx, id)
	if err != nil {
		w.broken("describe a transaction", err)
	}
	return ts[id].State
}

func (w *world) progressTopic() string {
	if w.s.Pipe {
		return group + "-progress"
	}
	return group + "-snapshots"
}

// TestRestoreStallTimeout has a transaction of a stranger open in the topic that a restore reads. The
// restore waits for it as long as is configured (3 minutes), and fails with a name.
func TestRestoreStallTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range components {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := c.setting
				prompt(&s)
				w := newWorld(t, s, 1, newStates())
				first := w.start("first")
				w.send(few(20)...)
				w.committed(time.Minute)
				first.cancel()
				<-first.done
				stranger := w.stranger()
				second := w.start("second")
				began := time.Now()
				<-second.done
				if took := time.Since(began); !errors.Is(second.err, stream.ErrRestoreStalled) || took < 3*time.Minute || took > 3*time.Minute+30*time.Second {
					t.Errorf("ended after %v with %v, want ErrRestoreStalled after 3 minutes", took, second.err)
				}
				stranger.Close()
				w.stop(endBound)
				w.close()
			})
		})
	}
}

// stranger opens a transaction in the topic of the snapshots, and leaves it open: the broker lets it be
// for longer than any restore waits.
func (w *world) stranger() *kgo.Client { return w.strangerIn(w.progressTopic(), "0") }

// strangerIn is stranger in any topic.
func (w *world) strangerIn(topic, value string) *kgo.Client {
	w.t.Helper()
	cl, err := w.kafka(w.net.DialContext).Client(kgo.TransactionalID("stranger"), kgo.TransactionTimeout(14*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cl.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	r := &kgo.Record{Topic: topic, Key: []byte("stranger"), Value: []byte(value)}
	if err := cl.ProduceSync(w.ctx, r).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	return cl
}

// TestUnreachableTimeout silences all brokers. The member stops by itself, with a name, when the group
// has not answered for as long as is configured (5 minutes), and not before.
func TestUnreachableTimeout(t *testing.T) {
	each(t, prompt, func(t *testing.T, w *world) {
		m := w.start("m")
		w.send(few(20)...)
		w.committed(time.Minute)
		m.link.cut("", silent)
		began := time.Now()
		select {
		case <-m.done:
		case <-time.After(3 * time.Hour):
			t.Fatalf("Run has not ended within 10 minutes:\n%s", strings.Join(w.trace(), "\n"))
		}
		if took := time.Since(began); !errors.Is(m.err, stream.ErrUnreachable) || took < 5*time.Minute || took > 8*time.Minute {
			t.Errorf("ended after %v with %v, want ErrUnreachable after 5 minutes", took, m.err)
		}
		w.start("again")
		w.send(few(20)...)
		w.committed(time.Minute)
	})
}

// TestIdleDay has nothing to do for a day, and then something. Nobody may have lost anything meanwhile.
func TestIdleDay(t *testing.T) {
	each(t, func(s *setting) { prompt(s); seldom(s) }, func(t *testing.T, w *world) {
		idle := 24 * time.Hour
		if os.Getenv("HOLDFAST_NIGHTLY") != "1" && (w.s.Pipe || w.s.Guarantee != holdfast.FencedState) {
			idle = 2 * time.Hour // a day takes seconds of the machine's
		}
		m := w.start("m")
		w.send(few(20)...)
		w.committed(time.Minute)
		time.Sleep(idle)
		w.send(few(20)...)
		w.committed(time.Minute)
		if granted, lost := m.count(holdfasttest.EventAssigned), m.count(holdfasttest.EventLost); granted != 1 || lost != 0 {
			t.Errorf("%d grants and %d losses in an idle day, want 1 and 0", granted, lost)
		}
	})
}

// seldom has the brokers take their time with fetches that find nothing, and the members ask seldom: a
// day has then thousands of requests and not millions.
func seldom(s *setting) {
	s.Slow = map[kmsg.Key]time.Duration{kmsg.Fetch: 9 * time.Second}
	s.Member.SessionTimeout, s.Member.RebalanceTimeout, s.Member.HeartbeatInterval = 90*time.Second, 2*time.Minute, 30*time.Second
}

// TestIDExpiry lets the transactional id expire (transactional.id.expiration.ms) while its partition is
// idle. The broker then knows neither id nor producer: the next commit takes the id over anew, and the
// member goes on (R4). The embedded broker answers a write under such an id with INVALID_TXN_STATE, which
// is a producer fence, and the one refusal: a read-back whose fetch takes seconds waits for it, as no
// transaction is open. What Kafka answers is in internal/limits (TestKafkaIDExpiresUnderAnIdleFlow).
func TestIDExpiry(t *testing.T) {
	each(t, func(s *setting) {
		prompt(s)
		seldom(s)
		s.BrokerConf = map[string]string{"transactional.id.expiration.ms": "3600000"}
	}, func(t *testing.T, w *world) {
		m := w.start("m")
		w.send(few(20)...)
		w.committed(time.Minute)
		for n := 1; n <= 2; n++ {
			before := len(m.refusals())
			time.Sleep(100 * time.Minute)
			w.send(few(20)...)
			w.committed(2 * time.Minute)
			refused := m.refusals()[before:]
			if w.s.Guarantee == holdfast.Unfenced {
				if len(refused) > 0 {
					t.Errorf("commits were refused for %q after expiry %d, and no id is used", refused, n)
				}
			} else if !slices.Equal(refused, []string{"producer-epoch"}) {
				t.Errorf("commits were refused for %q after expiry %d, want producer-epoch alone", refused, n)
			}
		}
		select {
		case <-m.done:
			t.Errorf("Run has ended: %v", m.err)
		default:
		}
	})
}
