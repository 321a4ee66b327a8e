package protocols

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

func TestMain(m *testing.M) {
	// The tests wait for sessions and rebalances most of the time.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	kafkatest.Main(m, trial.Child())
}

const (
	cooperative = "cooperative"
	eager       = "eager"
	serverSide  = "server-side"
)

func nightly() bool { return os.Getenv("HOLDFAST_NIGHTLY") == "1" }

// servesServerSide reports whether the brokers serve KIP-848 as it must be.
func servesServerSide() bool {
	v := kafkatest.Version()
	return !strings.HasPrefix(v, "3.") && !strings.HasPrefix(v, "4.0")
}

// serves skips a test of a protocol that the brokers do not serve.
func serves(t *testing.T, protocol string) {
	t.Helper()
	if protocol == serverSide && !servesServerSide() {
		t.Skip("takes Kafka 4.3 or newer")
	}
}

// spoken is the request that tells the protocol on the wire.
var spoken = map[string]kmsg.Key{cooperative: kmsg.Heartbeat, eager: kmsg.Heartbeat, serverSide: kmsg.ConsumerGroupHeartbeat}

// short has times that suit tests.
func short(a trial.App) trial.App {
	a.Session, a.Heartbeat = 2*time.Second, 200*time.Millisecond
	return a
}

// Members join, leave and are killed in mid-work while records come, on each protocol and under each
// guarantee; in the end everything is there, once. One case of each protocol runs always.
func TestKafkaJoinLeaveKill(t *testing.T) {
	for _, protocol := range []string{cooperative, eager, serverSide} {
		for name, app := range map[string]trial.App{
			"flow":     {Kind: trial.Flow},
			"outputs":  {Kind: trial.Flow, Guarantee: holdfast.FencedOutputs},
			"pipe":     {Kind: trial.Pipe},
			"unfenced": {Kind: trial.Flow, Guarantee: holdfast.Unfenced},
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				if !nightly() && name != "outputs" {
					t.Skip("one case of each protocol runs always: set HOLDFAST_NIGHTLY=1 for all")
				}
				serves(t, protocol)
				t.Parallel()
				app.Protocol = protocol
				testJoinLeaveKill(t, short(app))
			})
		}
	}
}

func testJoinLeaveKill(t *testing.T, app trial.App) {
	f := trial.New(t, kafkatest.Start(t), app, 4)
	one, two, three := f.Member("one"), f.Member("two"), f.Member("three")
	heartbeats := one.Tap.Fault(wiretap.HoldRequest, wiretap.First(1, wiretap.Keys(spoken[app.Protocol])))
	one.Start()
	f.Caught(heartbeats, 1) // the protocol is spoken
	heartbeats.Lift()
	one.Owns()
	stop := f.Load(200)
	one.AwaitCommit(0)
	two.Start()
	two.Owns()
	two.AwaitCommit(0)

	kill := f.Mark()
	if app.Guarantee == holdfast.Unfenced {
		one.Kill()
	} else {
		hold := one.HoldCommit()
		f.Caught(hold, 1)
		one.Kill()
		one.Discard(hold)
	}
	f.Await("the dead member's partitions for two", kill, 2, two.Is(trial.Kinds(holdfasttest.EventAssigned)))
	three.Start()
	three.Owns()
	three.AwaitCommit(0)
	leave := f.Mark()
	two.Stop()
	f.Await("all partitions for three", leave, 2, three.Is(trial.Kinds(holdfasttest.EventAssigned)))
	stop()
	f.CaughtUp()
	f.Verify()
}
