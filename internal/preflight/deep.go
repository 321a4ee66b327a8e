package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// deepPatience bounds what a start does not wait for. What was not looked at by then is said.
const deepPatience = 15 * time.Second

// deep looks at what a start does not wait for. The error is of what a start would be refused for later.
func (i *inspection) deep(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, deepPatience)
	defer cancel()
	i.internals(ctx)
	err := errors.Join(i.times(ctx), i.records(ctx))
	i.openTransactions(ctx)
	i.permissions(ctx)
	return err
}

// need is a request that a component sends, in the least version that it can use.
type need struct {
	key     kmsg.Key
	version int16
	kafka   string // the release that brought it
	what    string
	only    func(*inspection) bool // nil: always
	advice  bool                   // works without
}

// needs are compared with what the brokers speak.
var needs = []need{
	{key: kmsg.JoinGroup, version: 5, kafka: "2.3", what: "static membership"},
	{key: kmsg.OffsetForLeaderEpoch, version: 2, kafka: "2.1", what: "noticing a truncated log"},
	{key: kmsg.InitProducerID, version: 0, kafka: "0.11", what: "transactions"},
	{key: kmsg.OffsetFetch, version: 7, kafka: "2.5", what: "fetching an offset that no open transaction may change", only: fencedOnly},
	{key: kmsg.TxnOffsetCommit, version: fencingOffsetCommit, kafka: "2.5", what: "the fence by generation", only: fencedOnly},
	{key: kmsg.ConsumerGroupHeartbeat, version: 0, kafka: "4.0", what: "the consumer protocol", only: func(i *inspection) bool { return i.ServerSide }},
	{key: kmsg.DescribeProducers, version: 0, kafka: "2.8", what: "naming who holds a restore back", advice: true},
	{key: kmsg.ListTransactions, version: 0, kafka: "3.0", what: "naming whose transaction is open", advice: true},
}

func fencedOnly(i *inspection) bool { return i.Transactional }

// versions compares the requests that the component sends with those that every broker speaks.
func (i *inspection) versions() error {
	f := i.found.Features
	if f.Brokers == 0 {
		return nil
	}
	var lacks []error
	var advice []string
	for _, n := range needs {
		has := i.spoken.Least[n.key]
		if n.only != nil && !n.only(i) || has >= n.version {
			continue
		}
		if n.advice {
			advice = append(advice, fmt.Sprintf("%s (for %s) comes with Kafka %s", kmsg.NameForKey(int16(n.key)), n.what, n.kafka))
			continue
		}
		lacks = append(lacks, stream.NewError("check brokers", fmt.Errorf("%w: %s v%d, for %s, came with Kafka %s, and the oldest broker looks like %s",
			stream.ErrBrokerTooOld, kmsg.NameForKey(int16(n.key)), n.version, n.what, n.kafka, i.oldest())).
			Hinted("upgrade the brokers to Kafka %s or newer", n.kafka))
	}
	err := i.found.note("api-versions", "broker versions", fmt.Sprintf("brokers that answered: %d, the oldest looks like %s", f.Brokers, i.oldest()), errors.Join(lacks...))
	if err == nil && len(advice) > 0 {
		i.found.advise(strings.Join(advice, "; "), "upgrade the brokers")
	}
	if _, exact := i.release(); err == nil && !exact {
		i.found.advise("the claims were tested on Apache Kafka, and this speaks as no release of it does",
			"for development this is enough; check the cluster that you will run on as well, and prove it there: holdfast prove")
	}
	return err
}

// oldest names the release of the oldest broker.
func (i *inspection) oldest() string {
	release, exact := i.release()
	if !exact {
		return "no release of Kafka"
	}
	return "Kafka " + release
}

// release is that of the oldest broker, which brokers do not tell: their versions are compared with those
// of each release, and may be those of none.
func (i *inspection) release() (string, bool) {
	return strings.CutPrefix(strings.TrimPrefix(i.spoken.Oldest, "at least "), "v")
}

// internals looks at the topics in which the brokers keep offsets and transactions: what these lose,
// every component on the cluster loses.
func (i *inspection) internals(ctx context.Context) {
	_, exact := i.release()
	for _, t := range []struct {
		topic, setting string
		fenced         bool // only a fenced component uses it
	}{
		{topic: "__consumer_offsets", setting: "offsets.topic"},
		{topic: "__transaction_state", setting: "transaction.state.log", fenced: true},
	} {
		if t.fenced && !i.Transactional {
			continue
		}
		topic, setting := t.topic, t.setting
		id, what := "topic."+strings.Trim(topic, "_"), "brokers' topic "+topic
		facts, err := wire.TopicFacts(ctx, i.client, topic)
		switch {
		case err != nil:
			i.found.add(claim.Finding{ID: id, What: what, Fact: "could not be looked at", Advice: fmt.Sprintf("its replication is not known (%v)", kafka.Explain(err)),
				Fix: []string{wire.GrantTopic(i.client, topic, "Describe", "DescribeConfigs")}})
		case !facts.Exists && !exact: // an imitation of Kafka may keep them elsewhere
			i.found.add(claim.Finding{ID: id, What: what, Fact: "is not there"})
		case !facts.Exists:
			i.found.add(claim.Finding{ID: id, What: what, Fact: "is not there yet", Advice: "the brokers make it at its first use, as their " + setting + ".replication.factor says",
				Fix: []string{setting + ".replication.factor=3 in server.properties of each broker, which is the default"}})
		default:
			i.found.add(claim.Finding{ID: id, What: what, Fact: shape(facts)})
			i.weakness(topic, facts)
		}
	}
}

// week is how long a group may be down before what the brokers keep for it expires, by their defaults.
const week = 7 * 24 * time.Hour

// brokers' names for what the timings are compared with.
const (
	minSession   = "group.min.session.timeout.ms"
	maxSession   = "group.max.session.timeout.ms"
	offsetsKept  = "offsets.retention.minutes"
	idsKept      = "transactional.id.expiration.ms"
	firstJoining = "group.initial.rebalance.delay.ms"
)

// times compares the timings with each other and with what the brokers allow.
func (i *inspection) times(ctx context.Context) error {
	t := i.Times
	if t == (Times{}) {
		return nil
	}
	if i.ServerSide {
		t.SessionTimeout, t.HeartbeatInterval = cmp.Or(i.found.Timings.Session, fence.ServerSideSession), cmp.Or(i.found.Timings.Heartbeat, fence.ServerSideHeartbeat)
		t.RevokeBudget = cmp.Or(t.RevokeBudget, min(RevokeDefault, t.RebalanceTimeout/2))
	}
	configs, err := wire.BrokerConfigs(ctx, i.client, minSession, maxSession, offsetsKept, idsKept, firstJoining)
	fact := fmt.Sprintf("heartbeat %v < session %v <= rebalance %v, revoke budget %v", t.HeartbeatInterval, t.SessionTimeout, t.RebalanceTimeout, t.RevokeBudget)
	if i.Transactional {
		fact += fmt.Sprintf(", commit interval %v, transaction %v", t.CommitInterval, i.TransactionTimeout)
	}
	if err = i.found.note("times", "timings", fact, errors.Join(i.sessionLimits(configs), kafka.Explain(err))); err != nil {
		return err
	}
	if i.Transactional && t.CommitInterval > i.TransactionTimeout/2 {
		i.found.warn(fmt.Sprintf("the commit interval is over half the transaction timeout %v, so that one slow commit ends in an abort", i.TransactionTimeout),
			fmt.Sprintf("set Commit.Interval to %v or less", i.TransactionTimeout/3))
	}
	if len(configs) == 0 {
		i.found.advise("the brokers do not tell their limits", fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:NAME --operation DescribeConfigs --cluster", wire.Bootstrap(i.client)))
		return nil
	}
	if kept := least(configs.Numbers(offsetsKept), time.Minute); kept > 0 && kept < week {
		i.found.advise(fmt.Sprintf("committed offsets of a group that is down expire after %v", kept), "offsets.retention.minutes=10080 or more in server.properties")
	}
	if kept := least(configs.Numbers(idsKept), time.Millisecond); kept > 0 && kept < week && i.Transactional {
		i.found.advise(fmt.Sprintf("transactional ids expire after %v without use, after which a stale owner is held back by the generation alone", kept), "transactional.id.expiration.ms=604800000 in server.properties")
	}
	return nil
}

func least(numbers []int64, unit time.Duration) time.Duration {
	if len(numbers) == 0 {
		return 0
	}
	return time.Duration(slices.Min(numbers)) * unit
}

// sessionLimits refuses a session timeout that a coordinator would refuse at the join.
func (i *inspection) sessionLimits(configs wire.Configs) error {
	if i.ServerSide {
		return nil // the brokers choose it
	}
	for _, low := range configs.Numbers(minSession) {
		if limit := time.Duration(low) * time.Millisecond; i.SessionTimeout < limit {
			return stream.NewError("check brokers", fmt.Errorf("%w: the session timeout is %v, and a broker takes at least %v", stream.ErrConfig, i.SessionTimeout, limit)).
				Hinted("raise Member.SessionTimeout to %v, or lower %s of the brokers to %d", limit, minSession, i.SessionTimeout.Milliseconds())
		}
	}
	for _, high := range configs.Numbers(maxSession) {
		if limit := time.Duration(high) * time.Millisecond; i.SessionTimeout > limit {
			return stream.NewError("check brokers", fmt.Errorf("%w: the session timeout is %v, and a broker takes at most %v", stream.ErrConfig, i.SessionTimeout, limit)).
				Hinted("lower Member.SessionTimeout to %v, or raise %s of the brokers to %d", limit, maxSession, i.SessionTimeout.Milliseconds())
		}
	}
	return nil
}
