package main

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/prove"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// TestKafkaProve proves all five on real brokers, and finds the cluster afterwards as it was.
func TestKafkaProve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		cluster  kafkatest.Options
		replicas int16
		minISR   int
		weaker   []string
	}{
		{"one broker", kafkatest.Options{}, 1, 1, []string{"1 broker"}},
		{"three brokers", kafkatest.Options{Brokers: 3}, 3, 2, nil},
		{"transaction.version 1", kafkatest.Options{TransactionVersion: 1}, 1, 1, []string{"1 broker", "transaction.version"}},
	} {
		t.Run(c.name, func(t *testing.T) { // one after the other: each is a JVM or three
			if strings.HasPrefix(kafkatest.Version(), "3.") && c.cluster.TransactionVersion == 0 {
				c.weaker = append(c.weaker, "transaction.version")
			}
			k := kafkatest.New(t, c.cluster)
			k.CreateTopic(t, "payments", 1, nil)
			before := onCluster(t, k)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			got := command(ctx, "prove", "--brokers", strings.Join(k.Addrs, ","), "--json")
			if got.code != exitOK {
				t.Errorf("exit code %d\n%s", got.code, got.stderr)
			}
			var r prove.Report
			if err := json.Unmarshal([]byte(withoutObserved(t, got.stdout)), &r); err != nil {
				t.Fatal(err)
			}
			if r.Proved != 5 || r.Refuted != 0 || r.NotShown != 0 || len(r.Cleaned.Left) != 0 {
				t.Errorf("%d proved, %d refuted, %d not shown, left %v\n%s", r.Proved, r.Refuted, r.NotShown, r.Cleaned.Left, got.stderr)
			}
			if r.Replicas != c.replicas || r.MinISR != c.minISR || len(r.Weaker) != len(c.weaker) {
				t.Errorf("replication %d, min ISR %d, weaker %v", r.Replicas, r.MinISR, r.Weaker)
			}
			for i, want := range c.weaker {
				if i < len(r.Weaker) && !strings.Contains(r.Weaker[i], want) {
					t.Errorf("weaker %q, want %q", r.Weaker[i], want)
				}
			}
			if after := onCluster(t, k); !slices.Equal(before, after) {
				t.Errorf("the cluster has %v, and had %v", after, before)
			}
		})
	}
}

// onCluster returns the names of all topics and groups.
func onCluster(t *testing.T, k *kafkatest.Cluster) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	adm := kadm.NewClient(k.Client(t))
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := adm.ListGroups(ctx)
	for err != nil && ctx.Err() == nil { // a cluster that never had a group is still making its coordinator
		time.Sleep(20 * time.Millisecond)
		groups, err = adm.ListGroups(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(topics)), groups.Groups()...)))
}

// TestKafkaProveForbidden grants right after right, as the errors name them.
func TestKafkaProveForbidden(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{Secure: true, ACLs: true})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(k.Secure.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	adm := kadm.NewClient(k.Client(t))
	run := func(more ...string) result {
		return command(ctx, append([]string{"prove", "--brokers", strings.Join(k.Secure.Addrs, ","), "--tls-ca", k.Secure.CAPath,
			"--sasl-mechanism", "SCRAM-SHA-256", "--sasl-user", k.Secure.User, "--sasl-password-file", password, "--prefix", "p-"}, more...)...)
	}
	allow := func(b *kadm.ACLBuilder) {
		t.Helper()
		b = b.Allow("User:" + k.Secure.User).AllowHosts().ResourcePatternType(kadm.ACLPatternPrefixed)
		if _, err := adm.CreateACLs(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, got result, code int, says ...string) {
		t.Helper()
		if got.code != code {
			t.Errorf("%s: exit code %d, want %d\n%s\n%s", what, got.code, code, got.stdout, got.stderr)
		}
		for _, want := range says {
			if !strings.Contains(got.stdout+got.stderr, want) {
				t.Errorf("%s: %q is missing in\n%s\n%s", what, want, got.stdout, got.stderr)
			}
		}
	}
	topicRights := "--operation Create --operation Describe --operation Read --operation Write --operation Delete --topic p- --resource-pattern-type prefixed"
	expect("nothing", run(), exitUnreachable, "Try: kafka-acls.sh", topicRights, "0 proved, 0 refuted, 5 not shown")

	allow(kadm.NewACLs().Topics("p-").Operations(kadm.OpCreate, kadm.OpDescribe, kadm.OpRead, kadm.OpWrite))
	undeleted := run("--claims", "sends")
	expect("topics but Delete", undeleted, exitUnreachable, "1 proved", "LEFT: topic p-", "not authorized to remove 1 thing of this run", "prove --cleanup", topicRights)
	if left := onCluster(t, k); len(left) != 1 {
		t.Errorf("left %v", left)
	}

	allow(kadm.NewACLs().Topics("p-").Operations(kadm.OpDelete))
	expect("no groups and ids", run(), exitUnreachable, "1 proved, 0 refuted, 4 not shown",
		"--operation Describe --operation Read --operation Delete --group p-", "--operation Describe --operation Write --transactional-id p-", "--transactional-id holdfast-32-p- ", "Removed: topics 8, groups 0", "not authorized to run aborted, fencing, generation, takeover\n")
	if left := onCluster(t, k); len(left) != 1 {
		t.Errorf("left %v", left)
	}
	allow(kadm.NewACLs().Groups("p-").Operations(kadm.OpDescribe, kadm.OpRead, kadm.OpDelete))
	allow(kadm.NewACLs().TransactionalIDs("p-", "holdfast-32-p-").Operations(kadm.OpDescribe, kadm.OpWrite))
	expect("all that was named", run(), exitOK, "5 proved, 0 refuted, 0 not shown")
	if left := onCluster(t, k); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}
