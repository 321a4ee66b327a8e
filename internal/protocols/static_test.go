package protocols

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
)

// moved accepts what tells of a partition that comes or goes.
var moved = trial.Kinds(holdfasttest.EventAssigned, holdfasttest.EventRevoked, holdfasttest.EventLost)

// partitions are those of a member's events.
func partitions(es []trial.Event) map[int32]bool {
	ps := map[int32]bool{}
	for _, e := range es {
		ps[e.Partition] = true
	}
	return ps
}

// static starts two static members that share four partitions, and waits until the group is at rest.
func static(t *testing.T, app trial.App) (f *trial.Field, one, two *trial.Member) {
	f = trial.New(t, kafkatest.Start(t), app, 4)
	one, two = f.Member("one"), f.Member("two")
	for _, m := range []*trial.Member{one, two} {
		m.App.InstanceID = m.Name
		m.Start()
		m.Owns()
	}
	f.Await("two partitions for two", 0, 2, two.Is(trial.Kinds(holdfasttest.EventRestored)))
	f.Send(40)
	f.CaughtUp()
	return f, one, two
}

// A static member that is started again within its session gets its partitions back, and nobody else
// notices: the group has no rebalance. A classic group also hands them to the successor of a killed process.
func TestKafkaStaticMemberComesBack(t *testing.T) {
	for _, c := range []struct {
		protocol string
		kill     bool
	}{{cooperative, false}, {cooperative, true}, {eager, false}, {eager, true}, {serverSide, false}} {
		name := c.protocol + " stopped"
		if c.kill {
			name = c.protocol + " killed"
		}
		t.Run(name, func(t *testing.T) {
			if !nightly() && (c.kill || c.protocol == eager) {
				t.Skip("set HOLDFAST_NIGHTLY=1")
			}
			serves(t, c.protocol)
			t.Parallel()
			app := trial.App{Kind: trial.Flow, Guarantee: holdfast.FencedOutputs, Protocol: c.protocol, Session: 40 * time.Second, Rebalance: 40 * time.Second}
			testComesBack(t, app, c.kill)
		})
	}
}

func testComesBack(t *testing.T, app trial.App, kill bool) {
	f, one, two := static(t, app)
	had := partitions(f.Since(0, one.Is(trial.Kinds(holdfasttest.EventCommitted))))
	left := partitions(f.Since(0, two.Is(trial.Kinds(holdfasttest.EventCommitted))))
	for p := range left {
		delete(had, p) // one may have had it before two came
	}
	mark, generation := f.Mark(), two.Generation()
	if kill {
		one.Kill()
	} else {
		one.Stop()
	}
	f.Send(40)
	one.Start()
	again := partitions(f.Await("one's partitions", mark, 2, one.Is(trial.Kinds(holdfasttest.EventRestored))))
	f.Send(40)
	f.CaughtUp()
	for p := range had {
		if !again[p] {
			t.Errorf("partition %d has not come back: %v, before %v", p, again, had)
		}
	}
	if es := f.Since(mark, two.Is(moved)); len(es) > 0 {
		t.Errorf("the other member has noticed: %+v", es)
	}
	// A cooperative group may have a follow-up of its first assignment under way, which moves nothing.
	if g := two.Generation(); g != generation && app.Protocol != "cooperative" {
		t.Errorf("generation %d, before it was %d: there was a rebalance", g, generation)
	}
	f.Verify()
}

// The brokers keep the instance id of a dead KIP-848 member for its session: the process that comes in its
// place waits, and neither ends nor is let in.
func TestKafkaStaticServerSideSuccessorWaits(t *testing.T) {
	if !nightly() {
		t.Skip("waits for sessions: set HOLDFAST_NIGHTLY=1")
	}
	serves(t, serverSide)
	t.Parallel()
	f, one, _ := static(t, short(trial.App{Kind: trial.Pipe, Protocol: serverSide}))
	refused := refusals(one, kmsg.ConsumerGroupHeartbeat, kerr.UnreleasedInstanceID)
	one.Kill()
	one.Start()
	one.Owns()
	if refused.count() == 0 {
		t.Error("the successor was not refused once")
	}
	f.Send(40)
	f.CaughtUp()
	f.Verify()
}

// Two living processes with one instance id: a classic group ends the elder, KIP-848 never lets the younger
// in, and it ends with an error that names the id.
func TestKafkaTwoProcessesOneInstance(t *testing.T) {
	if !nightly() {
		t.Skip("waits for sessions: set HOLDFAST_NIGHTLY=1")
	}
	for _, protocol := range []string{cooperative, eager, serverSide} {
		t.Run(protocol, func(t *testing.T) {
			serves(t, protocol)
			t.Parallel()
			f := trial.New(t, kafkatest.Start(t), short(trial.App{Kind: trial.Flow, Protocol: protocol, InstanceID: "twin"}), 1)
			elder, younger := f.Member("elder"), f.Member("younger")
			elder.Start()
			elder.Owns()
			elder.MayEnd()
			younger.Start()
			younger.MayEnd()
			ends, stays := elder, younger
			if protocol == serverSide {
				ends, stays = younger, elder
			}
			if err := ends.Wait(); err == nil || !strings.Contains(string(ends.Process().Stderr()), "cause=instance-taken") {
				t.Errorf("%s ended with %v and said %s", ends.Name, err, ends.Process().Stderr())
			}
			f.Send(20)
			f.CaughtUp()
			if len(f.Since(0, stays.Is(trial.Kinds(holdfasttest.EventCommitted)))) == 0 {
				t.Errorf("%s has committed nothing", stays.Name)
			}
			f.Verify()
		})
	}
}
