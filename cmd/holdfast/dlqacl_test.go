package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// TestKafkaDLQForbidden grants one right after the other: each missing one is named, and nothing is sent.
func TestKafkaDLQForbidden(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{Secure: true, ACLs: true})
	d := newDeadLetters(t, strings.Join(k.Addrs, ","))
	d.letter([]byte("a"), 0, 5, 1, "no amount")
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(k.Secure.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) result {
		return command(t.Context(), append([]string{"dlq", "--brokers", strings.Join(k.Secure.Addrs, ","), "--tls-ca", k.Secure.CAPath,
			"--sasl-mechanism", "SCRAM-SHA-256", "--sasl-user", k.Secure.User, "--sasl-password-file", password, "--timeout", "1m"}, args...)...)
	}
	grant := func(topic string, op kmsg.ACLOperation) {
		b := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(op).Allow("User:" + k.Secure.User).AllowHosts("*")
		results, err := kadm.NewClient(d.cl).CreateACLs(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	// An ACL is in force a moment after it was created: what was refused for its lack is asked again.
	await := func(refused string, args ...string) result {
		for {
			got := run(args...)
			if got.code != exitUnreachable || !strings.Contains(got.stderr, refused) {
				return got
			}
		}
	}
	refuse := func(got result, says ...string) {
		t.Helper()
		for _, want := range append(says, "Try: ", "kafka-acls.sh") {
			if got.code != exitUnreachable || !strings.Contains(got.stderr, want) {
				t.Fatalf("exit code %d, want %d with %q\n%s%s", got.code, exitUnreachable, want, got.stdout, got.stderr)
			}
		}
	}
	refuse(run("list", d.dead), "--operation Describe", "--topic "+d.dead)
	grant(d.dead, kmsg.ACLOperationDescribe)
	refuse(await("may not be seen", "list", d.dead), "--operation Read", "--topic "+d.dead)
	grant(d.dead, kmsg.ACLOperationRead)
	if got := await("--operation Read", "list", d.dead); got.code != exitOK || !strings.Contains(got.stdout, "no amount") {
		t.Fatalf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	refuse(run("replay", d.dead), "--operation Describe", "--topic "+d.orders)
	grant(d.orders, kmsg.ACLOperationDescribe)
	got := await("may not be seen", "replay", d.dead, "--execute")
	refuse(got, "--operation Write", "--topic "+d.orders)
	if !strings.Contains(got.stdout, "Sent 0 letters") || !strings.Contains(got.stdout, "Go on with --partition 0 --from 0") {
		t.Errorf("got %s", got.stdout)
	}
	d.expectArrived(d.orders)
	grant(d.orders, kmsg.ACLOperationWrite)
	if got := await("--operation Write", "replay", d.dead, "--execute"); got.code != exitOK {
		t.Errorf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	d.expectArrived(d.orders, "0:a:2:0/0")
}
