package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// What a member of KIP-848 cannot ask for is refused, with the configuration of the group that has it.
func TestServerSideRefusesTheBrokersTimings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(*holdfast.Config[int])
		words []string
	}{
		{"session", func(c *holdfast.Config[int]) { c.Member.SessionTimeout = 7 * time.Second },
			[]string{"Member.SessionTimeout 7s", "--entity-type groups", "--add-config consumer.session.timeout.ms=7000", "--bootstrap-server", "group.consumer.min.session.timeout.ms, 45 s", "group.consumer.session.timeout.ms"}},
		{"heartbeat", func(c *holdfast.Config[int]) { c.Member.HeartbeatInterval = time.Second },
			[]string{"Member.HeartbeatInterval 1s", "--add-config consumer.heartbeat.interval.ms=1000", "group.consumer.heartbeat.interval.ms"}},
		{"unknown protocol", func(c *holdfast.Config[int]) { c.Member.Protocol = 3 }, []string{"Member.Protocol 3", "choose Cooperative, Eager or ServerSide"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conf := good()
			conf.Member.Protocol = holdfast.ServerSide
			if _, err := holdfast.New(conf); err != nil {
				t.Fatalf("unspoilt: %v", err)
			}
			c.spoil(&conf)
			_, err := holdfast.New(conf)
			for _, w := range c.words {
				if !errors.Is(err, holdfast.ErrConfig) || !strings.Contains(err.Error(), w) {
					t.Errorf("got %v, want a fault that says %q", err, w)
				}
			}
		})
	}
	conf := good()
	conf.Member = holdfast.Member{Protocol: holdfast.Eager, SessionTimeout: 7 * time.Second, HeartbeatInterval: time.Second}
	if _, err := holdfast.New(conf); err != nil {
		t.Errorf("a classic member may ask for both: %v", err)
	}
}

// served is a flow of KIP-848 on an embedded broker of a release.
func served(t *testing.T, release *kversion.Versions) (*kfake.Cluster, holdfast.Config[int]) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(release), kfake.SeedTopics(1, "payments", "balances"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	conf := good()
	conf.Kafka.Brokers, conf.Snapshots.Create = cluster.ListenAddrs(), &holdfast.TopicConfig{}
	conf.Member.Protocol = holdfast.ServerSide
	return cluster, conf
}

// Brokers that do not serve KIP-848, or not in Kafka 4.3's way, are refused: the client alone would speak the
// classic protocol to some of them, without a word.
func TestServerSideNeedsBrokersThatServeIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		release *kversion.Versions
		words   []string // nil: it is served
	}{
		{"3.9", kversion.V3_9_0(), []string{"do not serve groups of KIP-848", "group.version"}},
		{"4.2", kversion.V4_2_0(), []string{"older than Kafka 4.3", "metadata.version up to 29"}},
		{"4.3", kversion.V4_3_0(), nil},
		{"4.4", kversion.V4_4_0(), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, conf := served(t, c.release)
			f, err := holdfast.New(conf)
			if err != nil {
				t.Fatal(err)
			}
			report, err := f.Check(t.Context())
			if c.words == nil {
				if err != nil || !strings.Contains(report.String(), "group timings: session 45s (consumer.session.timeout.ms), heartbeat 5s") {
					t.Fatalf("%v\n%s", err, report)
				}
				return
			}
			e := (*holdfast.Error)(nil)
			if !errors.Is(err, holdfast.ErrBrokerTooOld) || !errors.As(err, &e) || !strings.Contains(e.Hint, "leave Member.Protocol unset") {
				t.Errorf("got %v, want it refused with a next step", err)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not say %q", err, w)
				}
			}
			if ran := f.Run(t.Context()); !errors.Is(ran, holdfast.ErrBrokerTooOld) {
				t.Errorf("Run: %v, want it refused", ran)
			}
		})
	}
}

// A broker that refuses the protocol although it offers it, as one that is configured so after the check: the
// client speaks the classic protocol then, and the flow ends instead.
func TestServerSideNeverFallsBack(t *testing.T) {
	t.Parallel()
	cluster, conf := served(t, kversion.V4_4_0())
	cluster.ControlKey(int16(kmsg.ConsumerGroupHeartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		return resp, nil, true
	})
	conf.Hooks = []holdfast.Hooks{{Assigned: func(e stream.Assigned) { t.Errorf("granted under another protocol: %+v", e) }}}
	f, err := holdfast.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	e := (*holdfast.Error)(nil)
	if err := f.Run(t.Context()); !errors.Is(err, holdfast.ErrBrokerTooOld) || !errors.As(err, &e) || !strings.Contains(e.Hint, "group.coordinator.rebalance.protocols") {
		t.Errorf("got %v, want a stop that says what to look at", err)
	}
}

// The start tells what the membership waits for and who has set it.
func TestTimingsAreTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		member  holdfast.Member
		unfence bool
		says    []string
	}{
		{"cooperative", holdfast.Member{}, false, []string{"protocol=Cooperative", "session=10s", "heartbeat=3s",
			"rebalance_timeout=1m0s", "revoke_budget=15s", "transaction_timeout=30s", "session_set_by=Member.SessionTimeout"}},
		{"eager", holdfast.Member{Protocol: holdfast.Eager, SessionTimeout: 6 * time.Second, InstanceID: "one"}, true,
			[]string{"protocol=Eager", "session=6s", "heartbeat=2s", "instance=one"}},
		{"server side", holdfast.Member{Protocol: holdfast.ServerSide, RebalanceTimeout: 12 * time.Second}, false, []string{"protocol=ServerSide",
			"session=45s", "heartbeat=5s", "revoke_budget=5s", `session_set_by="group config consumer.session.timeout.ms"`,
			`heartbeat_set_by="group config consumer.heartbeat.interval.ms"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, conf := served(t, kversion.V4_4_0())
			conf.Member = c.member
			if c.unfence {
				conf.Guarantee = holdfast.Unfenced
			}
			var log bytes.Buffer
			conf.Logger = slog.New(slog.NewTextHandler(&log, nil))
			ctx, stop := context.WithCancel(t.Context())
			conf.Hooks = []holdfast.Hooks{{Assigned: func(stream.Assigned) { stop() }}}
			f, err := holdfast.New(conf)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Run(ctx); err != nil {
				t.Fatal(err)
			}
			line := ""
			for _, l := range strings.Split(log.String(), "\n") {
				if strings.Contains(l, `msg="member timings"`) {
					line = l
				}
			}
			for _, w := range c.says {
				if !strings.Contains(line, w) {
					t.Errorf("the line does not say %s: %s", w, line)
				}
			}
			if c.unfence == strings.Contains(line, "transaction_timeout") {
				t.Errorf("transactions are told of, or not: %s", line)
			}
		})
	}
}

// A revoke budget that does not go with the heartbeat that the brokers have is refused at start.
func TestServerSideBudget(t *testing.T) {
	t.Parallel()
	_, conf := served(t, kversion.V4_4_0())
	conf.Member.RebalanceTimeout, conf.Commit.RevokeBudget = 10*time.Second, 4*time.Second
	f, err := holdfast.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	for who, err := range map[string]error{"Check": second(f.Check(t.Context())), "Run": f.Run(t.Context())} {
		if !errors.Is(err, holdfast.ErrConfig) || !strings.Contains(err.Error(), "Commit.RevokeBudget 4s") || !strings.Contains(err.Error(), "3s") {
			t.Errorf("%s: %v, want the budget refused", who, err)
		}
	}
}

func second(_ holdfast.Report, err error) error { return err }
