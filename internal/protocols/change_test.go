package protocols

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// One flow goes from protocol to protocol between its runs, and goes on from its states and offsets.
func TestKafkaChangeBetweenRuns(t *testing.T) {
	t.Parallel()
	f := trial.New(t, kafkatest.Start(t), short(trial.App{Kind: trial.Flow, Guarantee: holdfast.FencedOutputs}), 2)
	for _, protocol := range []string{cooperative, eager, serverSide, eager, cooperative} {
		if protocol == serverSide && !servesServerSide() {
			continue
		}
		m := f.Member(protocol + kafkatest.UniqueName(""))
		m.App.Protocol = protocol
		spoke := m.Hold(wiretap.HoldRequest, wiretap.First(1, wiretap.Keys(joining[protocol])))
		m.Start()
		f.Caught(spoke, 1)
		spoke.Lift()
		m.Owns()
		f.Send(20)
		f.CaughtUp()
		m.Stop()
	}
	// A group without members that is taken over by another kind of protocol is made anew, and its generations
	// begin again. Whoever has one of the old ones is no member, so that the broker refuses it by its id.
	for _, v := range f.Verdict() {
		if text := fmt.Sprint(v); !strings.Contains(text, "a commit of generation") || !servesServerSide() {
			t.Error(text)
		}
	}
}

// Members are changed one by one under load, from the classic protocol to KIP-848 and back: the brokers let
// both kinds be members of one group for as long as that takes.
// Public case E10.
func TestKafkaChangeOneByOne(t *testing.T) {
	for _, classic := range []string{cooperative, eager} {
		t.Run(classic, func(t *testing.T) {
			if !nightly() && classic == eager {
				t.Skip("set HOLDFAST_NIGHTLY=1")
			}
			serves(t, serverSide)
			t.Parallel()
			f := trial.New(t, kafkatest.Start(t), short(trial.App{Kind: trial.Flow, Guarantee: holdfast.FencedOutputs, Protocol: classic}), 4)
			one, two := f.Member("one"), f.Member("two")
			for _, m := range []*trial.Member{one, two} {
				m.Start()
				m.Owns()
			}
			stop := f.Load(100)
			for _, protocol := range []string{serverSide, classic} {
				for _, m := range []*trial.Member{one, two} {
					m.Stop()
					m.App.Protocol = protocol
					spoke := m.Hold(wiretap.HoldRequest, wiretap.First(1, wiretap.Keys(joining[protocol])))
					m.Start()
					f.Caught(spoke, 1)
					spoke.Lift()
					m.Owns()
					m.AwaitCommit(f.Mark())
				}
			}
			stop()
			f.CaughtUp()
			f.Verify()
		})
	}
}

// Between the two classic protocols there is no change member by member: the group refuses the newcomer,
// which ends and says what to do, and the members go on.
// Public case E10.
func TestKafkaChangeWithinClassicIsRefused(t *testing.T) {
	for _, c := range [][2]string{{cooperative, eager}, {eager, cooperative}} {
		t.Run(c[0]+" then "+c[1], func(t *testing.T) {
			if !nightly() && c[0] == eager {
				t.Skip("set HOLDFAST_NIGHTLY=1")
			}
			t.Parallel()
			f := trial.New(t, kafkatest.Start(t), short(trial.App{Kind: trial.Pipe, Protocol: c[0]}), 2)
			member, newcomer := f.Member("member"), f.Member("newcomer")
			member.Start()
			member.Owns()
			f.Send(20)
			f.CaughtUp()
			mark := f.Mark()
			newcomer.App.Protocol = c[1]
			newcomer.Start()
			newcomer.MayEnd()
			err := newcomer.Wait()
			said := string(newcomer.Process().Stderr())
			if err == nil || !strings.Contains(said, "cause=other-protocol") || !strings.Contains(said, "stop all of its members") {
				t.Errorf("the newcomer ended with %v and said %s", err, said)
			}
			f.Send(20)
			f.CaughtUp()
			if es := f.Since(mark, member.Is(trial.Kinds(holdfasttest.EventLost, holdfasttest.EventRevoked))); len(es) > 0 {
				t.Errorf("the member has noticed: %+v", es)
			}
			f.Verify()
		})
	}
}

// joining is the request that a member joins with.
var joining = map[string]kmsg.Key{cooperative: kmsg.JoinGroup, eager: kmsg.JoinGroup, serverSide: kmsg.ConsumerGroupHeartbeat}
