// Package dlq is about dead letters: records that a component could not process and wrote, bytes
// unchanged, to a topic of their own, so that the ones behind them are not held up.
//
// A component is given a Policy and an OnError that answers stream.DeadLetter or
// stream.RetryThenDeadLetter; Classes makes one of rules. New builds the letter, Breaker stops a
// component that dead-letters everything. Parse, All and Dedup read letters: Holdfast's own, Kafka
// Connect's, Kafka Streams' and Spring's. The command "holdfast dlq" lists, shows and replays them.
//
// A letter keeps key, value, timestamp and headers of its record. Headers are added: Connect's
// __connect.errors.topic, .partition, .offset, .exception.class.name and .exception.message, which
// tools know, and dlq.topic.id, dlq.reason, dlq.stage, dlq.attempt, dlq.group, dlq.app.version.
//
// In a pipe and under FencedOutputs a letter is in the transaction that moves the offset past its
// record. Elsewhere it is acknowledged before the offset moves, so that a crash in between writes it
// again: letters of one record have the same origin, and Dedup drops the repeats.
package dlq
