package trial_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/trial"
)

func TestMain(m *testing.M) { kafkatest.Main(m, trial.Child()) }

// A member is killed with a commit on its way, and the run is judged to be right.
func TestKafkaKilledMember(t *testing.T) {
	for name, app := range map[string]trial.App{
		"flow":         {Kind: trial.Flow},
		"flow outputs": {Kind: trial.Flow, Guarantee: holdfast.FencedOutputs},
		"unfenced":     {Kind: trial.Flow, Guarantee: holdfast.Unfenced},
		"pipe":         {Kind: trial.Pipe},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "flow outputs" && os.Getenv("HOLDFAST_NIGHTLY") != "1" {
				t.Skip("one application runs always: set HOLDFAST_NIGHTLY=1 for all")
			}
			t.Parallel()
			f := trial.New(t, kafkatest.Start(t), app, 2)
			one, two := f.Member("one"), f.Member("two")
			one.Start()
			one.Owns()
			two.Start()
			two.Owns()
			f.Send(60)
			f.CaughtUp()
			if app.Guarantee == holdfast.Unfenced {
				f.Send(60)
				one.Kill()
			} else {
				hold := one.HoldCommit()
				f.Send(60)
				f.Caught(hold, 1)
				one.Kill()
				one.Discard(hold)
			}
			mark := f.Mark()
			one.Start()
			f.Send(60)
			f.Await("a takeover", mark, 1, trial.Kinds(holdfasttest.EventAssigned))
			f.CaughtUp()
			f.Verify()
		})
	}
}

// A run with a rule switched off is judged to be wrong: the verdict can fail.
func TestKafkaVerdictSeesABrokenRule(t *testing.T) {
	t.Parallel()
	f := trial.New(t, kafkatest.Start(t), trial.App{Kind: trial.Flow, Off: []rule.Name{rule.Holds}, Persist: 1e12}, 1)
	one := f.Member("one")
	one.Start()
	one.Owns()
	f.Send(60)
	f.CaughtUp()
	one.Kill()
	one.Start()
	one.Owns()
	f.Send(30)
	f.CaughtUp()
	if len(f.Verdict()) == 0 {
		t.Error("an owner that committed past its snapshots was killed, and nothing is said")
	}
}
