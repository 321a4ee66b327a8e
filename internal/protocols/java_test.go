package protocols

import (
	"testing"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
)

const javaAssignors = "org.apache.kafka.clients.consumer."

// A member of Kafka's own client shares the group: with Java's default assignors or StickyAssignor beside
// Eager, with group.protocol=consumer beside ServerSide. It joins and leaves while records come, whoever
// leads; nothing is lost or repeated.
func TestKafkaBesideJava(t *testing.T) {
	if !nightly() {
		t.Skip("set HOLDFAST_NIGHTLY=1")
	}
	for _, c := range []struct{ name, protocol, assignors string }{
		{"eager, Java's default", eager, javaAssignors + "RangeAssignor," + javaAssignors + "CooperativeStickyAssignor"},
		{"eager, sticky", eager, javaAssignors + "StickyAssignor"},
		{"server-side", serverSide, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			serves(t, c.protocol)
			t.Parallel()
			f := trial.New(t, kafkatest.Start(t), trial.App{Kind: trial.Copy, Protocol: c.protocol, JavaAssignors: c.assignors}, 4)
			one, two := f.Member("one"), f.Member("two")
			one.Start()
			one.Owns()
			stop := f.Load(60)
			java := f.Java("java")
			f.Await("a commit of java", 0, 1, java.Is(trial.Kinds(holdfasttest.EventCommitted)))
			two.Start()
			two.Owns()
			two.AwaitCommit(0)
			mark := f.Mark()
			one.Stop() // the leader of a classic group
			f.Await("the partitions of one", mark, 1, trial.Kinds(holdfasttest.EventAssigned))
			f.Await("another commit of java", mark, 1, java.Is(trial.Kinds(holdfasttest.EventCommitted)))
			java.Stop()
			stop()
			f.CaughtUp()
			f.Verify()
		})
	}
}
