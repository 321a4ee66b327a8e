package preflight

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// times are those of a flow's defaults.
func times() Times {
	return Times{SessionTimeout: 10 * time.Second, RebalanceTimeout: time.Minute, HeartbeatInterval: 3 * time.Second, RevokeBudget: 30 * time.Second, CommitInterval: 5 * time.Second}
}

// put writes records whose partitions are given.
func put(t *testing.T, job Job, records ...*kgo.Record) {
	t.Helper()
	cl, err := job.Kafka.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// keyed are records with keys, displaced by so many partitions from where murmur2 puts them.
func keyed(topic string, partitions, displaced int, keys ...string) (out []*kgo.Record) {
	murmur := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	for _, key := range keys {
		r := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte("v")}
		r.Partition = int32((murmur.Partition(r, partitions) + displaced) % partitions)
		out = append(out, r)
	}
	return out
}

// Keys that lie where another partitioner puts them are said to, with how many were looked at.
func TestPartitioner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		placed, elsewhere []string
		level             claim.Level
		says              string
	}{
		{"murmur2", []string{"a", "b", "c"}, nil, claim.LevelOK, "3 of 3 keyed records"},
		{"another one", nil, []string{"a", "b"}, claim.LevelAdvice, "0 of 2 keyed records"},
		{"two of them", []string{"a", "b", "c"}, []string{"a", "b"}, claim.LevelWarning, "a key can be in two partitions"},
		{"nothing", nil, nil, claim.LevelOK, "nothing is known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, job := embedded(t, nil)
			put(t, job, append(keyed("in", 2, 0, c.placed...), keyed("in", 2, 1, c.elsewhere...)...)...)
			found, err := Inspect(t.Context(), job, Mode{Deep: true})
			if err != nil {
				t.Fatal(err)
			}
			f := one(t, found, "partitioner.input")
			if f.Level() != c.level || !strings.Contains(f.Text(), c.says) || (f.Level() != claim.LevelOK) != (len(f.Fix) > 0) {
				t.Errorf("finding %+v", f)
			}
		})
	}
}

// Progress of another group refuses a start, that of an input which was made again is a warning, and the
// group's own is said with its age.
func TestProgressOfWhom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, group string
		same        bool // the input is the one that it was
		level       claim.Level
		says        string
	}{
		{"its own", "g", true, claim.LevelOK, "of this group, incarnation 3"},
		{"another group", "other", true, claim.LevelFault, `its progress records are of group "other"`},
		{"an input made again", "g", false, claim.LevelWarning, "deleted and created again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, job := embedded(t, nil)
			found, err := Inspect(t.Context(), job, Mode{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			p := fence.Progress{Group: c.group, Partitions: 2, Incarnation: 3, At: time.Unix(1, 0), Inputs: []fence.InputProgress{{Topic: "in", TopicID: found.Inputs[0].ID}}}
			if !c.same {
				p.Inputs[0].TopicID[0]++
			}
			key, value, err := p.Encode()
			if err != nil {
				t.Fatal(err)
			}
			put(t, job, &kgo.Record{Topic: job.Progress.Topic, Key: key, Value: value})
			found, err = Inspect(t.Context(), job, Mode{Deep: true})
			f := one(t, found, "progress")
			if f.Level() != c.level || !strings.Contains(f.Text(), c.says) || errors.Is(err, stream.ErrOtherGroup) != (c.level == claim.LevelFault) {
				t.Errorf("%v, finding %+v", err, f)
			}
		})
	}
}

// Timings that the brokers would refuse at the join are faults, and a commit interval near the
// transaction timeout is a warning.
func TestTimesAgainstTheBrokers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Times)
		level  claim.Level
		says   string
		broker map[string]string
	}{
		{"offsets that expire soon", func(*Times) {}, claim.LevelAdvice, "1h0m0s", map[string]string{offsetsKept: "60"}},
		{"ids that expire soon", func(*Times) {}, claim.LevelAdvice, "2h0m0s", map[string]string{idsKept: "7200000"}},
		{"defaults", func(*Times) {}, claim.LevelOK, "heartbeat 3s < session 10s", nil},
		{"commit interval", func(t *Times) { t.CommitInterval = 20 * time.Second }, claim.LevelWarning, "over half the transaction timeout", nil},
		{"short session", func(t *Times) { t.SessionTimeout = time.Second }, claim.LevelFault, "at least 6s", nil},
		{"long session", func(t *Times) { t.SessionTimeout = time.Hour }, claim.LevelFault, "at most 30m0s", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "in"),
				kfake.BrokerConfigs(map[string]string{minSession: "6000", maxSession: "1800000"}), kfake.BrokerConfigs(c.broker))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(broker.Close)
			job := pipe(broker.ListenAddrs(), "g", "in")
			job.Times = times()
			c.change(&job.Times)
			found, err := Inspect(t.Context(), job, Mode{Deep: true})
			f := one(t, found, "times")
			if f.Level() != c.level || !strings.Contains(f.Text(), c.says) || errors.Is(err, stream.ErrConfig) != (c.level == claim.LevelFault) {
				t.Errorf("%v, finding %+v", err, f)
			}
			if c.level != claim.LevelOK && len(f.Fix) == 0 {
				t.Errorf("no fix: %+v", f)
			}
		})
	}
}

// Settings of topics that the claims do not cover have the command that mends them.
func TestTopicSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, key, value string
		level            claim.Level
		fix              string
	}{
		{"as it has to be", "min.insync.replicas", "2", claim.LevelOK, ""},
		{"one replica acknowledges", "min.insync.replicas", "1", claim.LevelWarning, "--add-config min.insync.replicas=2"},
		{"all replicas have to be up", "min.insync.replicas", "3", claim.LevelAdvice, "--add-config min.insync.replicas=2"},
		{"unclean elections", "unclean.leader.election.enable", "true", claim.LevelWarning, "unclean.leader.election.enable=false"},
		{"short tombstones", "delete.retention.ms", "1000", claim.LevelAdvice, "delete.retention.ms=86400000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broker, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(2, "in"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(broker.Close)
			job := pipe(broker.ListenAddrs(), "g", "in")
			job.Component, job.Progress.Role = claim.ComponentFlow, "snapshot"
			configs := map[string]string{"min.insync.replicas": "2"}
			configs[c.key] = c.value
			job.Progress.Create.Replicas, job.Progress.Create.Configs = 3, configs
			found, err := Inspect(t.Context(), job, Mode{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			f := findings(found, "topic.snapshot")
			last := f[len(f)-1]
			if last.Level() != c.level || !strings.Contains(strings.Join(last.Fix, " "), c.fix) {
				t.Errorf("finding %+v", last)
			}
		})
	}
}

// A broker that lacks a request is refused with the release that has it; one of an older kind that a
// start can do without is advice.
func TestVersionsNeeded(t *testing.T) {
	t.Parallel()
	_, job := embedded(t, nil)
	cl, err := kafka.Config{Brokers: job.Kafka.Brokers}.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	i := &inspection{Job: job, client: cl, patience: time.Second}
	if err := i.features(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := i.versions(); err != nil {
		t.Errorf("the embedded broker: %v", err)
	}
	for _, n := range needs {
		i.found.Report = claim.Report{}
		i.ServerSide = true
		had := i.spoken.Least[n.key]
		i.spoken.Least[n.key] = n.version - 1
		err := i.versions()
		i.spoken.Least[n.key] = had
		f := one(t, i.found, "api-versions")
		if errors.Is(err, stream.ErrBrokerTooOld) == n.advice || !strings.Contains(f.Text(), "Kafka "+n.kafka) || len(f.Fix) == 0 {
			t.Errorf("%s: %v, %+v", n.what, err, f)
		}
	}
}
