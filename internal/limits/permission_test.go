package limits

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// permission is one of those that a component lives on.
type permission struct {
	name      string
	resource  func(b *bench) string
	on        func(acl *kadm.ACLBuilder, name string) *kadm.ACLBuilder
	operation kadm.ACLOperation
	word      string // of the operation in the error
}

func onTopic(acl *kadm.ACLBuilder, name string) *kadm.ACLBuilder { return acl.Topics(name) }
func onGroup(acl *kadm.ACLBuilder, name string) *kadm.ACLBuilder { return acl.Groups(name) }
func onID(acl *kadm.ACLBuilder, name string) *kadm.ACLBuilder    { return acl.TransactionalIDs(name) }

var permissions = []permission{
	{"write to the progress topic", (*bench).progress, onTopic, kadm.OpWrite, "write"},
	{"read of the input", func(b *bench) string { return b.input }, onTopic, kadm.OpRead, "read"},
	{"write to the output", func(b *bench) string { return b.output }, onTopic, kadm.OpWrite, "write"},
	{"write under the transactional id", (*bench).id, onID, kadm.OpWrite, "write"},
	{"read of the group", func(b *bench) string { return b.group }, onGroup, kadm.OpRead, "read"},
}

// id is the transactional id of the input partition.
func (b *bench) id() string { return fence.TransactionalID(b.group, b.progress(), 0) }

// principal is the user that the component is.
const principal = "User:" + kafkatest.User

func (b *bench) acl(p permission, operations ...kadm.ACLOperation) *kadm.ACLBuilder {
	return p.on(kadm.NewACLs(), p.resource(b)).Operations(operations...).ResourcePatternType(kadm.ACLPatternLiteral).Allow(principal).AllowHosts()
}

// grant gives the component a permission. What it may do beside it, it is given as well: that a permission
// is gone has to be told by the request that needs it.
func (b *bench) grant(p permission) {
	b.t.Helper()
	operations := []kadm.ACLOperation{p.operation, kadm.OpDescribe}
	switch p.resource(b) {
	case b.progress():
		operations = append(operations, kadm.OpRead, kadm.OpDescribeConfigs)
	case b.input, b.output:
		operations = append(operations, kadm.OpDescribeConfigs)
	}
	rs, err := b.admin.CreateACLs(b.t.Context(), b.acl(p, operations...))
	for _, r := range rs {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// revoke takes a permission away.
func (b *bench) revoke(p permission) {
	b.t.Helper()
	rs, err := b.admin.DeleteACLs(b.t.Context(), b.acl(p, p.operation))
	deleted := 0
	for _, r := range rs {
		err = errors.Join(err, r.Err)
		deleted += len(r.Deleted)
	}
	if err != nil || deleted != 1 {
		b.t.Fatalf("%d permissions were taken away, %v", deleted, err)
	}
}

// admitted starts a member once the brokers have heard of its permissions, which takes them a moment.
func (b *bench) admitted() *running {
	b.t.Helper()
	for limit := time.Now().Add(patience); ; {
		b.send(1)
		r := b.start()
		end := b.end(b.input)
		for {
			r.mu.Lock()
			next, wake := r.next, r.wake
			r.mu.Unlock()
			if next >= end {
				return r
			}
			select {
			case <-wake:
				continue
			case <-r.done:
			case <-time.After(patience):
				b.t.Fatalf("offset %d was not committed within %v", end, patience)
			}
			break
		}
		if !errors.Is(r.err, stream.ErrNotAuthorized) || time.Now().After(limit) {
			b.t.Fatalf("the member ended with %v", r.err)
		}
	}
}

// A permission is taken away from a component that runs. It stops and names the ACL; with that granted
// again it goes on, and nothing is lost, repeated or out of order. One case runs always, all of them
// for each kind nightly.
func TestKafkaPermissionIsTakenAway(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{Secure: true, ACLs: true})
	trust, err := c.Secure.TLSConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	as := kafka.Config{Brokers: c.Secure.Addrs, TLS: trust, SASL: scram.Auth{User: c.Secure.User, Pass: c.Secure.Password}.AsSha256Mechanism()}
	for i, p := range permissions {
		for j, kind := range kinds {
			if i+j > 0 && os.Getenv("HOLDFAST_NIGHTLY") != "1" {
				continue
			}
			t.Run(p.name+" of "+kind, func(t *testing.T) {
				b := newBench(t, kafka.Config{Brokers: c.Addrs}, kind)
				b.kafka = as
				for _, p := range permissions {
					b.grant(p)
				}
				r := b.admitted()
				b.revoke(p)
				for limit := time.Now().Add(patience); r.runs() && time.Now().Before(limit); { // until the brokers have heard of it
					b.send(1)
				}
				err := r.failure()
				var where *stream.Error
				// An output that goes beside the transaction is told as an output that was refused.
				if !errors.Is(err, stream.ErrNotAuthorized) && !errors.Is(err, stream.ErrOutput) || !errors.As(err, &where) ||
					!strings.Contains(err.Error(), "AUTHORIZATION_FAILED") || !strings.Contains(err.Error(), p.resource(b)) || !strings.Contains(strings.ToLower(where.Hint), p.word) {
					t.Errorf("the member ended with %v, want an error with the operation %s on %s", err, p.word, p.resource(b))
				}
				b.grant(p)
				if err := b.admitted().stop(); err != nil {
					t.Fatal(err)
				}
				b.send(5)
				b.finish(b.end(b.input))
			})
		}
	}
}

// runs reports whether the member still runs, and gives it a moment to end.
func (r *running) runs() bool {
	r.t.Helper()
	select {
	case <-r.done:
		return false
	case <-time.After(50 * time.Millisecond):
	case <-r.t.Context().Done():
		r.t.Fatal("the test ended first")
	}
	return true
}
