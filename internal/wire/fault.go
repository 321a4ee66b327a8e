package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// fatal reports whether an error stays however often the request is sent again. Everything else is
// taken to pass: a moved leader, a restarting broker, a cut network.
func fatal(err error) bool {
	if sentinel(err) != nil || errors.Is(err, kgo.ErrClientClosed) {
		return true
	}
	var named *stream.Error
	return errors.As(err, &named)
}

// Passes reports whether an error is taken to pass, so that the request may be sent again.
func Passes(err error) bool { return err != nil && !fatal(err) }

// sentinel returns the project's error for a Kafka error that does not pass, nil for one that does.
func sentinel(err error) error {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed),
		errors.Is(err, kerr.GroupAuthorizationFailed),
		errors.Is(err, kerr.ClusterAuthorizationFailed),
		errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return stream.ErrNotAuthorized
	case errors.Is(err, kerr.SaslAuthenticationFailed),
		errors.Is(err, kerr.UnsupportedSaslMechanism),
		errors.Is(err, kerr.IllegalSaslState):
		return stream.ErrNotAuthenticated
	case errors.Is(err, kerr.InconsistentTopicID), errors.Is(err, kerr.InvalidTopicException):
		return stream.ErrTopic
	case errors.Is(err, kerr.UnsupportedVersion):
		return stream.ErrBrokerTooOld
	}
	return nil
}

// named turns a final error of a request on this partition into a stream.Error.
func (l Log) named(op string, err error) error {
	var already *stream.Error
	if errors.As(err, &already) {
		return err
	}
	kind := sentinel(err)
	e := func(kind error) *stream.Error {
		return stream.NewError(op, fmt.Errorf("%w: %w", kind, err)).At(l.At(), -1)
	}
	switch {
	case errors.Is(err, kerr.InconsistentTopicID):
		return e(stream.ErrTopic).Hinted("the topic was deleted and created again while it was in use; " +
			"its records are gone. Stop every user of the topic, then restart")
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, errUnknownPartition):
		return e(stream.ErrTopic).Hinted("see whether the partition exists: "+
			"kafka-topics.sh --bootstrap-server %s --describe --topic %s", Bootstrap(l.Client), l.Topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return e(kind).Hinted("%s", GrantTopic(l.Client, l.Topic, "Read", "Describe"))
	case kind != nil:
		return e(kind)
	}
	return stream.NewError(op, err).At(l.At(), -1)
}

// Bootstrap returns the client's seed brokers in the form that Kafka's own commands take.
func Bootstrap(cl *kgo.Client) string {
	if cl != nil {
		if seeds, ok := cl.OptValue(kgo.SeedBrokers).([]string); ok && len(seeds) > 0 {
			return strings.Join(seeds, ",")
		}
	}
	return "BROKERS"
}

// GrantTopic returns the command that grants operations on a topic.
func GrantTopic(cl *kgo.Client, topic string, operations ...string) string {
	return grant(cl, "--topic "+topic, operations...)
}

// GrantGroup returns the command that grants operations on a consumer group.
func GrantGroup(cl *kgo.Client, group string, operations ...string) string {
	return grant(cl, "--group "+group, operations...)
}

// GrantTransactionalID returns the command that grants operations on a transactional id.
func GrantTransactionalID(cl *kgo.Client, id string, operations ...string) string {
	return grant(cl, "--transactional-id "+id, operations...)
}

func grant(cl *kgo.Client, resource string, operations ...string) string {
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:NAME --operation %s %s",
		Bootstrap(cl), strings.Join(operations, " --operation "), resource)
}
