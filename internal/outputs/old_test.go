package outputs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// One cluster for all that needs brokers of its own, since each takes a JVM and seconds to start: it
// speaks transaction.version 1, knows users and ACLs, and allows transactions of 10 s at most.
func TestKafkaOwnCluster(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{
		TransactionVersion: 1, Secure: true, ACLs: true, Properties: map[string]string{"transaction.max.timeout.ms": "10000"},
	})
	for name, test := range map[string]func(*testing.T, *lab){
		"weaker claim": testWeakerClaim, "transaction timeout": testTransactionTimeout,
		"forbidden at the start": testForbiddenAtStart, "forbidden under way": testForbiddenUnderWay,
	} {
		t.Run(name, func(t *testing.T) { onOwn(t, k, test) })
	}
	for _, p := range []crashPoint{
		{"before the partitions", wiretap.HoldRequest, kmsg.AddPartitionsToTxn, false, ""},
		{"before the records", wiretap.HoldRequest, kmsg.Produce, false, ""},
		{"before the group", wiretap.HoldRequest, kmsg.AddOffsetsToTxn, false, ""},
		{"offset bound", wiretap.HoldResponse, kmsg.TxnOffsetCommit, false, ""},
		{"the end arrives late", wiretap.HoldRequest, kmsg.EndTxn, true, ""},
	} {
		t.Run("killed "+p.name, func(t *testing.T) {
			onOwn(t, k, func(_ *testing.T, l *lab) {
				f, err := wire.LookupFeatures(t.Context(), l.read)
				if err != nil {
					l.t.Fatal(err)
				}
				if p.key == kmsg.AddOffsetsToTxn && !f.AddOffsets() {
					return // from TxnOffsetCommit v5 on the offset brings the group with it
				}
				l.crash(p)
			})
		})
	}
}

func onOwn(t *testing.T, k *kafkatest.Cluster, test func(*testing.T, *lab)) {
	for _, what := range kinds {
		t.Run(string(what), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, k, what, 1)
			l.conf.Member.TransactionTimeout = 8 * time.Second
			test(t, l)
		})
	}
}

// On transaction.version 1 the report says what is not promised.
func testWeakerClaim(t *testing.T, l *lab) {
	c, err := l.conf.build(l.kind)
	if err != nil {
		t.Fatal(err)
	}
	m := l.start(t.Context(), "only", l.conf)
	l.produce(0, 0, 10)
	m.committedTo(0, 10)
	m.stop()
	report, err := c.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Claims) == 0 {
		t.Error("no claim")
	}
	for _, c := range report.Claims {
		if c.Weaker == "" || !strings.Contains(report.String(), "transaction.version") {
			t.Errorf("the claim is not weaker: %v", c)
		}
	}
	l.verify()
}

func testTransactionTimeout(t *testing.T, l *lab) {
	s := l.conf
	s.Member.TransactionTimeout = 20 * time.Second
	err := l.start(t.Context(), "only", s).wait()
	if !errors.Is(err, stream.ErrConfig) || !strings.Contains(err.Error(), "transaction.max.timeout.ms") {
		t.Errorf("ended with %v, want ErrConfig that names transaction.max.timeout.ms", err)
	}
}

// restricted is a lab whose component is a user that may do everything but what is denied later.
func (l *lab) restricted() settings {
	l.t.Helper()
	b := kadm.NewACLs().Topics("*").Groups("*").TransactionalIDs("*").ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpAll).Allow("User:" + l.k.Secure.User).AllowHosts()
	l.createACLs(b)
	trust, err := l.k.Secure.TLSConfig(false)
	if err != nil {
		l.t.Fatal(err)
	}
	s := l.conf
	s.Kafka = kafka.Config{
		Brokers: l.k.Secure.Addrs, TLS: trust,
		SASL: scram.Auth{User: l.k.Secure.User, Pass: l.k.Secure.Password}.AsSha256Mechanism(),
	}
	return s
}

func (l *lab) createACLs(b *kadm.ACLBuilder) {
	l.t.Helper()
	rs, err := l.admin.CreateACLs(l.t.Context(), b)
	for _, r := range rs {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// forbid denies the user to write to the output topic, and waits until the broker knows.
func (l *lab) forbid() {
	l.t.Helper()
	l.createACLs(kadm.NewACLs().Topics(l.conf.Output).ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpWrite).Deny("User:" + l.k.Secure.User).DenyHosts())
	limit := time.After(patience)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		rs, err := l.admin.DescribeACLs(l.t.Context(), kadm.NewACLs().Topics(l.conf.Output).ResourcePatternType(kadm.ACLPatternLiteral).
			Operations(kadm.OpWrite).Deny("User:"+l.k.Secure.User).DenyHosts())
		if err == nil && len(rs) == 1 && len(rs[0].Described) > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			l.t.Fatalf("the broker does not know the ACL: %v, %v", rs, err)
		}
	}
}

func (l *lab) forbidden(m *member) {
	l.t.Helper()
	err := m.wait()
	if !errors.Is(err, stream.ErrNotAuthorized) {
		l.t.Fatalf("ended with %v, want ErrNotAuthorized", err)
	}
	for _, word := range []string{"write", l.conf.Output} {
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(word)) {
			l.t.Errorf("the error does not say %q: %v", word, err)
		}
	}
}

func testForbiddenAtStart(t *testing.T, l *lab) {
	s := l.restricted()
	l.forbid()
	l.forbidden(l.start(t.Context(), "only", s))
}

// A right that is taken away under a running member stops it, with nothing of the batch committed. The
// next run goes on.
func testForbiddenUnderWay(t *testing.T, l *lab) {
	s := l.restricted()
	m := l.start(t.Context(), "only", s)
	l.produce(0, 0, 20)
	m.committedTo(0, 20)
	l.forbid()
	l.produce(0, 20, 30)
	l.forbidden(m)
	next := l.start(t.Context(), "super user", l.conf)
	next.committedTo(0, 30)
	next.stop()
	l.verify()
}
