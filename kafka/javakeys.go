package kafka

import (
	"slices"
	"strings"
)

// usedKeys are read under a security.protocol that asks for them, and have no effect under another.
var usedKeys = [...]string{
	mechanismKey, jaasKey, endpointKey, "sasl.oauthbearer.client.credentials.client.id",
	"sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.scope", "sasl.oauthbearer.header.urlencode",
	"sasl.login.callback.handler.class", "sasl.oauthbearer.jwt.retriever.class",
	"ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates",
	"ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain",
	"ssl.enabled.protocols", "ssl.endpoint.identification.algorithm",
}

// harmlessKeys are settings of Java's clients that say nothing about who is reached and as whom.
// What they set is Java's own machinery, or belongs to a producer or consumer, whose settings the
// components choose themselves.
var harmlessKeys = [...]string{
	"auto.include.jmx.reporter", "client.dns.lookup", "default.api.timeout.ms", "enable.metrics.push",
	"metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples",
	"metrics.recording.level", "metrics.sample.window.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms",
	"reconnect.backoff.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms", "security.providers", "send.buffer.bytes",
	"socket.connection.setup.timeout.max.ms",

	"ssl.key.password", "ssl.keymanager.algorithm", "ssl.keystore.password", "ssl.protocol", "ssl.provider",
	"ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.password",

	"sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
	"sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer",
	"sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name",

	"acks", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level", "compression.type",
	"compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "interceptor.classes", "key.serializer", "linger.ms",
	"max.block.ms", "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.idle.ms",
	"partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.class",
	"partitioner.ignore.keys", "transaction.timeout.ms", "transactional.id", "value.serializer",

	"allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "check.crcs", "enable.auto.commit",
	"exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id", "group.instance.id",
	"group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "isolation.level", "key.deserializer",
	"max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "partition.assignment.strategy",
	"session.timeout.ms", "value.deserializer",
}

// harmlessPrefixes are those of whole families of harmless keys.
var harmlessPrefixes = [...]string{"sasl.kerberos.", "sasl.login.refresh.", "sasl.oauthbearer.jwks.endpoint."}

// ignored reports whether a key that was not read may be left unread.
func ignored(key string) bool {
	if slices.Contains(usedKeys[:], key) || slices.Contains(harmlessKeys[:], key) {
		return true
	}
	for _, p := range harmlessPrefixes {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}
