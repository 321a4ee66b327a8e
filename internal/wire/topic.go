package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/stream"
)

// Facts is what a component has to know about a topic before it relies on it.
type Facts struct {
	Topic      string
	ID         [16]byte
	Exists     bool
	Partitions int32
	Replicas   int16 // the least of all partitions
	Leaderless int   // partitions that have no leader at the moment
	Brokers    int   // of the cluster
	Permitted  Operations
	Embedded   bool // of an embedded broker, whose compaction moves the start of a log

	CleanupPolicy   string // "compact", "delete" or "compact,delete"
	MinISR          int
	MaxMessageBytes int
	DeleteRetention time.Duration // how long compaction keeps tombstones
	SegmentBytes    int64         // of a log's newest part, which compaction leaves alone until it is full
	CompactionLag   time.Duration // after which compaction has seen a record at the latest
	UncleanElection bool          // acknowledged records may be lost in an election
	Retention       time.Duration // how long records are kept; negative: for ever
	RetentionBytes  int64         // of a partition; negative: unbounded
	AppendTime      bool          // the broker sets the timestamps, else the writer does
	Internal        bool          // the brokers' own, as __consumer_offsets
	// TimeBefore and TimeAfter are how far a timestamp may be from the broker's clock; 0: without a limit.
	TimeBefore, TimeAfter time.Duration
}

// embedded are the cluster ids of devbroker and of kfake, which it is made of.
var embedded = []string{"holdfast-devbroker", "kfake"}

// TopicConfig says how a topic is created.
type TopicConfig struct {
	Replicas int16             // 0: the cluster's default
	MinISR   int               // min.insync.replicas; 0: the cluster's default
	Configs  map[string]string // further topic configuration
}

// TopicFacts asks the cluster about a topic. A topic that does not exist is not an error: Exists is
// false. Without the permission to describe its configuration the error is stream.ErrNotAuthorized,
// with the command that grants it.
func TopicFacts(ctx context.Context, cl *kgo.Client, topic string) (Facts, error) {
	f, err := topicShape(ctx, cl, topic)
	if err != nil || !f.Exists {
		return f, err
	}
	configs, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, topic)
	if err == nil && len(configs) != 1 {
		err = fmt.Errorf("the cluster described %d topics instead of 1", len(configs))
	}
	if err == nil {
		err = configs[0].Err
	}
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return f, topicError(topic, fmt.Errorf("%w: %w: its configuration cannot be checked", stream.ErrNotAuthorized, err)).
			Hinted("grant DescribeConfigs on it: %s", GrantTopic(cl, topic, "DescribeConfigs"))
	}
	if err != nil {
		return f, Log{Client: cl, Topic: topic, Partition: -1}.named("describe configuration of", err)
	}
	for _, c := range configs[0].Configs {
		if err := f.set(c.Key, c.MaybeValue()); err != nil {
			return f, topicError(topic, err)
		}
	}
	return f, nil
}

func (f *Facts) set(key, value string) (err error) {
	switch key {
	case "cleanup.policy":
		words := strings.Split(strings.ReplaceAll(value, " ", ""), ",")
		slices.Sort(words)
		f.CleanupPolicy = strings.Join(words, ",")
	case "min.insync.replicas":
		f.MinISR, err = strconv.Atoi(value)
	case "max.message.bytes":
		f.MaxMessageBytes, err = strconv.Atoi(value)
	case "delete.retention.ms":
		var ms int64
		ms, err = strconv.ParseInt(value, 10, 64)
		f.DeleteRetention = time.Duration(ms) * time.Millisecond
	case "segment.bytes":
		f.SegmentBytes, err = strconv.ParseInt(value, 10, 64)
	case "max.compaction.lag.ms":
		f.CompactionLag, err = milliseconds(value)
	case "retention.ms":
		f.Retention, err = milliseconds(value)
	case "retention.bytes":
		f.RetentionBytes, err = strconv.ParseInt(value, 10, 64)
	case "message.timestamp.before.max.ms":
		err = lowerTo(&f.TimeBefore, value)
	case "message.timestamp.after.max.ms":
		err = lowerTo(&f.TimeAfter, value)
	case "message.timestamp.difference.max.ms": // of brokers before 4.0, for both
		if err = lowerTo(&f.TimeBefore, value); err == nil {
			err = lowerTo(&f.TimeAfter, value)
		}
	case "message.timestamp.type":
		f.AppendTime = value == "LogAppendTime"
	case "unclean.leader.election.enable":
		f.UncleanElection = value == "true"
	}
	if err != nil {
		return fmt.Errorf("configuration %s is %q: %w", key, value, err)
	}
	return nil
}

func milliseconds(value string) (time.Duration, error) {
	ms, err := strconv.ParseInt(value, 10, 64)
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond, err
}

// centuries is a limit of time that bounds nothing.
const centuries = math.MaxInt64 / int64(time.Millisecond) * int64(time.Millisecond)

// lowerTo sets a limit of time, unless there is a lower one. That of 0 is the least that there is, for 0 means none here.
func lowerTo(limit *time.Duration, value string) error {
	d, err := milliseconds(value)
	if d = max(d, time.Millisecond); err == nil && d < time.Duration(centuries) && (*limit == 0 || d < *limit) {
		*limit = d
	}
	return err
}

// topicShape is the part of the facts that the metadata has.
func topicShape(ctx context.Context, cl *kgo.Client, topic string) (Facts, error) {
	f := Facts{Topic: topic}
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	req.IncludeTopicAuthorizedOperations = true
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && len(resp.Topics) != 1 {
		err = fmt.Errorf("metadata answered %d topics instead of 1", len(resp.Topics))
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if resp != nil {
		f.Brokers = len(resp.Brokers)
		f.Embedded = resp.ClusterID != nil && slices.Contains(embedded, *resp.ClusterID)
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return f, nil
	case errors.Is(err, kerr.LeaderNotAvailable): // the topic is there, and told as far as it is known
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return f, topicError(topic, fmt.Errorf("%w: %w", stream.ErrNotAuthorized, err)).
			Hinted("the topic does not exist or may not be seen; grant Describe on it: %s", GrantTopic(cl, topic, "Describe"))
	case err != nil:
		return f, Log{Client: cl, Topic: topic, Partition: -1}.named("describe", err)
	}
	t := &resp.Topics[0]
	f.Exists, f.ID, f.Partitions, f.Internal = true, t.TopicID, int32(len(t.Partitions)), t.IsInternal
	f.Permitted = operationsOf(t.AuthorizedOperations)
	for i := range t.Partitions {
		n := int16(len(t.Partitions[i].Replicas))
		if i == 0 || n < f.Replicas {
			f.Replicas = n
		}
		if t.Partitions[i].Leader < 0 {
			f.Leaderless++
		}
	}
	return f, nil
}

// Partitions returns how many partitions a topic has. It returns stream.ErrTopic if there is no such
// topic, and stream.ErrNotAuthorized if it may not be seen, which hides whether it exists.
func Partitions(ctx context.Context, cl *kgo.Client, topic string) (int32, error) {
	f, err := topicShape(ctx, cl, topic)
	if err == nil && !f.Exists {
		err = topicError(topic, fmt.Errorf("%w: it does not exist", stream.ErrTopic)).
			Hinted("kafka-topics.sh --bootstrap-server %s --list, which shows the topics there are", Bootstrap(cl))
	}
	return f.Partitions, err
}

func topicError(topic string, err error) *stream.Error {
	return stream.NewError("check topic", err).At(stream.Partition{Topic: topic, Partition: -1}, -1)
}

func unusable(topic, format string, args ...any) *stream.Error {
	return topicError(topic, fmt.Errorf("%w: "+format, append([]any{stream.ErrTopic}, args...)...))
}

// What bounds how many old versions of a key a restore reads. Kafka compacts no part of a log that it still writes to,
// and that part has 1 GiB by default: at one commit a second most of a restore would be versions that count no more.
const (
	// ChangelogSegment is the segment.bytes that Kafka Streams gives its changelogs.
	ChangelogSegment = 50 << 20
	// ChangelogLag is a max.compaction.lag.ms. Each compaction copies what is left of a partition, so that it is no less.
	ChangelogLag = time.Hour
)

// changelog is the configuration of a compacted topic that holds the newest version of each key.
func changelog() map[string]*string {
	return map[string]*string{
		"cleanup.policy":        kadm.StringPtr("compact"),
		"segment.bytes":         kadm.StringPtr(strconv.Itoa(ChangelogSegment)),
		"max.compaction.lag.ms": kadm.StringPtr(strconv.FormatInt(ChangelogLag.Milliseconds(), 10)),
	}
}

// compacted is the configuration of a compacted topic that a command creates on a cluster of that many
// brokers. Two in-sync replicas are demanded where there can be three: one broker may then be down.
func compacted(brokers int) map[string]*string {
	configs := changelog()
	if brokers >= 3 {
		configs["min.insync.replicas"] = kadm.StringPtr("2")
	}
	return configs
}

func createCompacted(ctx context.Context, cl *kgo.Client, topic string, partitions int32, c TopicConfig) error {
	configs := c.configs(changelog())
	replicas := c.Replicas
	if replicas <= 0 {
		replicas = -1
	}
	resp, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, replicas, configs, topic)
	if errors.Is(err, kerr.InvalidConfig) {
		// What the user, or the cluster for all topics, has set goes before what is added here: as a longer
		// min.compaction.lag.ms, beside which Kafka takes no shorter max.compaction.lag.ms.
		configs = c.configs(map[string]*string{})
		resp, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, replicas, configs, topic)
	}
	switch {
	case err == nil, errors.Is(err, kerr.TopicAlreadyExists):
		return nil
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return topicError(topic, fmt.Errorf("%w: %w: it does not exist and cannot be created", stream.ErrNotAuthorized, err)).
			Hinted("grant Create on it: %s", GrantTopic(cl, topic, "Create"))
	}
	if resp.ErrMessage != "" {
		err = fmt.Errorf("%w: %s", err, resp.ErrMessage)
	}
	return topicError(topic, fmt.Errorf("%w: it could not be created: %w", stream.ErrTopic, err)).
		Hinted("create it by hand: %s", createCommand(cl, topic, partitions, replicas, configs))
}

// configs adds what c says to the configuration of a topic.
func (c TopicConfig) configs(to map[string]*string) map[string]*string {
	for k, v := range c.Configs {
		to[k] = kadm.StringPtr(v)
	}
	to["cleanup.policy"] = kadm.StringPtr("compact")
	if c.MinISR > 0 {
		to["min.insync.replicas"] = kadm.StringPtr(strconv.Itoa(c.MinISR))
	}
	return to
}

func createCommand(cl *kgo.Client, topic string, partitions int32, replicas int16, configs map[string]*string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions %d", Bootstrap(cl), topic, partitions)
	if replicas > 0 {
		fmt.Fprintf(&b, " --replication-factor %d", replicas)
	}
	for _, k := range slices.Sorted(maps.Keys(configs)) {
		fmt.Fprintf(&b, " --config %s=%s", k, *configs[k])
	}
	return b.String()
}

// awaitLeaders waits as long as ctx lasts until every partition of a topic that was just created has
// a leader: before that, each broker tells something else.
func awaitLeaders(ctx context.Context, cl *kgo.Client, topic string) (Facts, error) {
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		f, err := topicShape(ctx, cl, topic)
		if err != nil {
			return f, err
		}
		if f.Exists && f.Partitions > 0 && f.Leaderless == 0 {
			// Both parts of the facts may come from brokers that are behind the one that was asked first.
			full, err := TopicFacts(ctx, cl, topic)
			if !errors.Is(err, kerr.UnknownTopicOrPartition) && (err != nil || full.Exists) {
				return full, err
			}
		}
		if !sleep(ctx, pause) {
			return f, topicError(topic, fmt.Errorf("%w: it was created, but its partitions have no leaders yet: %w",
				stream.ErrTopic, context.Cause(ctx))).Hinted("wait, and look at it: %s", Log{Client: cl, Topic: topic}.DescribeCommand())
		}
	}
}
