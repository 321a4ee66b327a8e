package protocols

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
)

// checked builds an application and checks the cluster.
func checked(t *testing.T, f *trial.Field) (holdfast.Report, error) {
	t.Helper()
	c, err := f.App.Build(holdfasttest.NewRecorder("check", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Check(t.Context())
}

// The times of a KIP-848 group are read from its configuration at the brokers, and from their default where
// it has none. Brokers that are too old are refused.
func TestKafkaServerSideStart(t *testing.T) {
	t.Parallel()
	app := trial.App{Kind: trial.Pipe, Protocol: serverSide, Session: 3 * time.Second, Heartbeat: 700 * time.Millisecond}
	f := trial.New(t, kafkatest.Start(t), app, 1)
	report, err := checked(t, f)
	if !servesServerSide() {
		if !errors.Is(err, holdfast.ErrBrokerTooOld) || !strings.Contains(err.Error(), "4.3") {
			t.Errorf("got %v, want the brokers refused\n%s", err, report)
		}
		return
	}
	want := "group timings: session 3s (consumer.session.timeout.ms), heartbeat 700ms (consumer.heartbeat.interval.ms)"
	if err != nil || !strings.Contains(report.String(), want) {
		t.Errorf("%v, want %q\n%s", err, want, report)
	}
	f.App.Group = kafkatest.UniqueName("none")
	f.Cluster.CreateTopic(t, f.App.Progress(), 1, map[string]string{"cleanup.policy": "compact"})
	if report, err = checked(t, f); err != nil || !strings.Contains(report.String(), "group timings: session 45s") {
		t.Errorf("%v, want the brokers' default\n%s", err, report)
	}
}

// Brokers that are new enough, and do not offer the protocol.
func TestKafkaServerSideSwitchedOff(t *testing.T) {
	if !nightly() {
		t.Skip("starts a broker of its own: set HOLDFAST_NIGHTLY=1")
	}
	serves(t, serverSide)
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{Properties: map[string]string{"group.coordinator.rebalance.protocols": "classic"}})
	f := trial.New(t, k, trial.App{Kind: trial.Pipe, Protocol: serverSide}, 1)
	report, err := checked(t, f)
	if errors.Is(err, holdfast.ErrBrokerTooOld) {
		return // it is told already
	}
	m := f.Member("one")
	m.Start()
	m.MayEnd()
	if err := m.Wait(); err == nil || !strings.Contains(string(m.Process().Stderr()), "do not offer KIP-848") {
		t.Errorf("the check said %s, and the member ended with %v: %s", report, err, m.Process().Stderr())
	}
}
