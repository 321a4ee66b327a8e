package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const password = "a-password-of-a-test"

// grant is one permission of a pipe.
type grant struct {
	name  string
	on    func(Job) *kadm.ACLBuilder
	words []string // of the error without it; nil: nothing is refused
}

func topicGrant(topic func(Job) string, ops ...kadm.ACLOperation) func(Job) *kadm.ACLBuilder {
	return func(j Job) *kadm.ACLBuilder { return kadm.NewACLs().Topics(topic(j)).Operations(ops...) }
}

var (
	inputOf    = func(j Job) string { return j.Inputs[0] }
	progressOf = func(j Job) string { return j.Progress.Topic }
	outputOf   = func(j Job) string { return j.Outputs[0] }
	deadOf     = func(j Job) string { return j.DeadLetters }
)

// clusterConfig is the permission without which the brokers' maximum is not known.
const clusterConfig = "describe the cluster's configuration"

// grants are those of a pipe. Each topic and the group may be described, so that what lacks is not seen
// by that.
var grants = []grant{
	{"descriptions", func(j Job) *kadm.ACLBuilder {
		return kadm.NewACLs().Topics(j.Inputs[0], j.Progress.Topic, j.Outputs[0], j.DeadLetters).Operations(kadm.OpDescribe, kadm.OpDescribeConfigs)
	}, []string{"--operation Read --operation DescribeConfigs --topic"}},
	{"read input", topicGrant(inputOf, kadm.OpRead), []string{"may not read the input topic", "--operation Read --operation DescribeConfigs --topic"}},
	{"read progress", topicGrant(progressOf, kadm.OpRead), []string{"may not read the progress topic", "--operation Read --operation Write --operation DescribeConfigs"}},
	{"write progress", topicGrant(progressOf, kadm.OpWrite), []string{"may not write the progress topic", "--operation Read --operation Write --operation DescribeConfigs"}},
	{"write output", topicGrant(outputOf, kadm.OpWrite), []string{"may not write the output topic", "--operation Write --operation DescribeConfigs --topic"}},
	{"write dead letters", topicGrant(deadOf, kadm.OpWrite), []string{"may not write the dead-letter topic", "--operation Write --operation DescribeConfigs --topic"}},
	{"describe group", func(j Job) *kadm.ACLBuilder { return kadm.NewACLs().Groups(j.Group).Operations(kadm.OpDescribe) }, nil},
	{"read group", func(j Job) *kadm.ACLBuilder { return kadm.NewACLs().Groups(j.Group).Operations(kadm.OpRead) },
		[]string{"check group ", "--operation Read --group"}},
	{"write transactional ids", func(j Job) *kadm.ACLBuilder {
		return kadm.NewACLs().TransactionalIDs(fence.TransactionalID(j.Group, j.Progress.Topic, 0)).Operations(kadm.OpDescribe, kadm.OpWrite)
	}, []string{"check transactional id", "--operation Describe --operation Write --transactional-id holdfast-", "--resource-pattern-type prefixed"}},
	{clusterConfig, func(Job) *kadm.ACLBuilder { return kadm.NewACLs().Clusters().Operations(kadm.OpDescribeConfigs) }, nil},
}

func user(without int) string { return fmt.Sprintf("user%d", without) }

// secured is a pipe's job as a user that has all grants but one, on a cluster whose brokers allow
// transactions of 20 s at most.
func secured(t *testing.T, k *kafkatest.Cluster, without int) Job {
	t.Helper()
	name := kafkatest.UniqueName("acl")
	trust, err := k.Secure.TLSConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	job := pipe(nil, name+"-group", k.CreateTopic(t, name+"-in", 1, nil))
	job.Kafka = kafka.Config{Brokers: k.Secure.Addrs, TLS: trust, SASL: scram.Auth{User: user(without), Pass: password}.AsSha256Mechanism()}
	job.Outputs, job.DeadLetters = []string{k.CreateTopic(t, name+"-out", 1, nil)}, k.CreateTopic(t, name+"-dead", 1, nil)
	job.TransactionTimeout = 20 * time.Second
	k.CreateTopic(t, job.Progress.Topic, 1, map[string]string{"cleanup.policy": "compact"})
	commit(t, k.Client(t), job.Group, job.Inputs[0], "") // so that the group exists, and its permissions are told
	admin := kadm.NewClient(k.Client(t))
	for i, g := range grants {
		if i == without {
			continue
		}
		acl := g.on(job).ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:" + user(without)).AllowHosts()
		rs, err := admin.CreateACLs(t.Context(), acl)
		if err == nil {
			for _, r := range rs {
				err = errors.Join(err, r.Err)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return job
}

// inspectUntil inspects until the answer is the one that is waited for: an ACL reaches the broker some
// time after it was made.
func inspectUntil(t *testing.T, job Job, done func(Found, error) bool) (Found, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		found, err := Inspect(t.Context(), job, Mode{})
		if done(found, err) {
			return found, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the last answer: %v\n%s", err, found.Report)
		}
	}
}

// TestKafkaPermissions takes each permission away in turn, from a principal that may describe all: the
// broker would tell of a missing Write at the first record only.
func TestKafkaPermissions(t *testing.T) {
	t.Parallel()
	users := map[string]string{}
	for i := -1; i < len(grants); i++ {
		users[user(i)] = password
	}
	k := kafkatest.New(t, kafkatest.Options{
		Secure: true, ACLs: true, Users: users, Properties: map[string]string{"transaction.max.timeout.ms": "20000"},
	})
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		found, _ := inspectUntil(t, secured(t, k, -1), func(f Found, err error) bool {
			return err == nil && strings.Contains(f.Report.String(), "transaction timeout")
		})
		if text := found.Report.String(); !strings.Contains(text, "transaction timeout: 20s, the brokers allow 20s") || !strings.Contains(text, "claim ") {
			t.Errorf("report:\n%s", text)
		}
	})
	for i, g := range grants {
		t.Run("without "+g.name, func(t *testing.T) {
			t.Parallel()
			job := secured(t, k, i)
			found, err := inspectUntil(t, job, func(f Found, err error) bool { return faults(f) == min(len(g.words), 1) || i == 0 && err != nil })
			if g.words == nil {
				return // nothing is claimed
			}
			refused(t, found, err, stream.ErrNotAuthorized, append(g.words, "kafka-acls.sh --bootstrap-server "+job.Kafka.Brokers[0])...)
		})
	}
	t.Run("timeout", func(t *testing.T) { t.Parallel(); testTimeout(t, k) })
	t.Run("probe", func(t *testing.T) { t.Parallel(); testProbeForbidden(t, k) })
}

// The probe needs a group and a transactional id of its own. Where the principal has permissions on its
// own by name alone, each lack has its command, the start is not refused, and nothing is left; with a
// prefix of both it runs.
func testProbeForbidden(t *testing.T, k *kafkatest.Cluster) {
	job := secured(t, k, -1)
	admin := kadm.NewClient(k.Client(t))
	for _, step := range []struct {
		fix   string // "": the probe runs
		grant *kadm.ACLBuilder
	}{
		{"--operation Read --operation Delete --group " + job.Group + "-probe- --resource-pattern-type prefixed",
			kadm.NewACLs().Groups(job.Group+"-probe-").Operations(kadm.OpRead, kadm.OpDelete)},
		{"--operation Describe --operation Write --transactional-id holdfast-",
			kadm.NewACLs().TransactionalIDs(strings.TrimSuffix(fence.TransactionalID(job.Group, job.Progress.Topic, 0), "-0")).Operations(kadm.OpDescribe, kadm.OpWrite)},
		{},
	} {
		var f claim.Finding
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ctx.Err() == nil { // an ACL reaches the broker some time after it was made
			found, _ := Inspect(ctx, job, Mode{Probe: true})
			if all := findings(found, ProbeID); len(all) == 1 {
				f = all[0]
			}
			if fixed := strings.Join(f.Fix, " "); step.fix == "" && f.Level() == claim.LevelOK && f.ID != "" || step.fix != "" && strings.Contains(fixed, step.fix) {
				break
			}
		}
		if want := map[bool]claim.Level{true: claim.LevelOK, false: claim.LevelWarning}[step.fix == ""]; f.Level() != want || !strings.Contains(strings.Join(f.Fix, " "), step.fix) {
			t.Fatalf("finding %+v, want %s and %q", f, want, step.fix)
		}
		if step.grant == nil {
			break
		}
		acl := step.grant.ResourcePatternType(kadm.ACLPatternPrefixed).Allow("User:" + user(-1)).AllowHosts()
		if _, err := admin.CreateACLs(t.Context(), acl); err != nil {
			t.Fatal(err)
		}
	}
	leaves(t, k.Client(t), job)
}

func faults(f Found) int {
	n := 0
	for _, finding := range f.Report.Findings {
		if finding.Err != nil {
			n++
		}
	}
	return n
}

// A transaction timeout above the brokers' maximum is told with both values where the brokers may be
// asked; where not, nothing is claimed.
func testTimeout(t *testing.T, k *kafkatest.Cluster) {
	job := pipe(k.Addrs, kafkatest.UniqueName("timeout"), k.CreateTopic(t, kafkatest.UniqueName("timeout"), 1, nil))
	job.TransactionTimeout = 20*time.Second + time.Millisecond
	found, err := Inspect(t.Context(), job, Mode{Create: true})
	refused(t, found, err, stream.ErrConfig, "is 20.001s", "at most 20s", "lower Member.TransactionTimeout to 20s", "transaction.max.timeout.ms", "20001")
	if left := topics(t, k.Client(t), job.Group); len(left) > 0 {
		t.Errorf("a refused start has made %v", left)
	}
	for name, change := range map[string]func(*Job){
		"unfenced":   func(j *Job) { j.Transactional = false },
		"not stated": func(j *Job) { j.TransactionTimeout = 0 },
		"lower":      func(j *Job) { j.TransactionTimeout = 20 * time.Second },
	} {
		other := job
		change(&other)
		if found, err := Inspect(t.Context(), other, Mode{}); err != nil {
			t.Errorf("%s: %v\n%s", name, err, found.Report)
		}
	}
	without := slices.IndexFunc(grants, func(g grant) bool { return g.name == clusterConfig })
	job = secured(t, k, without)
	job.TransactionTimeout = 30 * time.Second
	found, _ = inspectUntil(t, job, func(_ Found, err error) bool { return err == nil })
	if text := found.Report.String(); strings.Contains(text, "transaction timeout") {
		t.Errorf("the brokers' maximum is claimed without a permission to know it:\n%s", text)
	}
	// The broker itself refuses it, as it does at a start.
	cl := k.Client(t, kgo.TransactionalID(job.Group), kgo.TransactionTimeout(30*time.Second))
	if _, _, err := cl.ProducerID(t.Context()); err == nil || !strings.Contains(err.Error(), "INVALID_TRANSACTION_TIMEOUT") {
		t.Errorf("the broker takes 30 s: %v", err)
	}
}
