package wire

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ofRecord are the codes by which a broker refuses a batch because of what one of its records is, or because of the
// size that they have together.
var ofRecord = []*kerr.Error{
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.UnsupportedForMessageFormat,
	kerr.UnsupportedCompressionType, kerr.PolicyViolation,
}

// OfRecord reports whether a broker has refused records for what they are: nothing of their batch is written, and
// it would refuse them again.
func OfRecord(err error) bool {
	return slices.ContainsFunc(ofRecord, func(code *kerr.Error) bool { return errors.Is(err, code) })
}

// Remedy is the next step after a refusal of a record for a topic, by the cause that the broker gave. what is the
// record's word, as "output".
func Remedy(err error, what, topic string) string {
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Sprintf("make the %s smaller, or raise max.message.bytes of topic %s", what, topic)
	case errors.Is(err, kerr.InvalidTimestamp):
		return fmt.Sprintf("topic %s takes no %s of that time: write it with another one, or raise message.timestamp.before.max.ms "+
			"and message.timestamp.after.max.ms of the topic", topic, what)
	case errors.Is(err, kerr.InvalidRecord):
		return fmt.Sprintf("topic %s takes no such %s: a compacted topic takes none without a key (the broker's log has its reason)", topic, what)
	case errors.Is(err, kerr.UnsupportedCompressionType), errors.Is(err, kerr.UnsupportedForMessageFormat):
		return fmt.Sprintf("look at compression.type of topic %s, and at the versions of the brokers", topic)
	case errors.Is(err, kerr.PolicyViolation):
		return fmt.Sprintf("a policy of the brokers refuses the %s: its author knows what topic %s is to take", what, topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Sprintf("allow WRITE on topic %s", topic)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Sprintf("allow WRITE on topic %s, and IDEMPOTENT_WRITE on the cluster (brokers before 2.8)", topic)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InvalidTopicException),
		errors.Is(err, kerr.InconsistentTopicID):
		return fmt.Sprintf("topic %s is missing: create it again", topic)
	}
	return fmt.Sprintf("mend what the broker's answer names, of topic %s", topic)
}
