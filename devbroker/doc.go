// Package devbroker is a Kafka broker inside the process, for demonstrations, development and tests.
// It needs no Java, no container and no network but the loopback, and starts in milliseconds.
//
// NEVER USE IT IN PRODUCTION, and never take it as proof of a fencing claim. It is franz-go's kfake:
// one broker, no replication, and faithful to Apache Kafka but for gaps. Those that matter here, each
// held true of the pinned version by a test of this package:
//
//   - A fenced producer that aborts while its successor is idle is handed the successor's epoch, and
//     is unfenced by it. Kafka answers PRODUCER_FENCED.
//   - A produce request of a fenced producer is refused and opens a transaction all the same, whose
//     timeout then fences the rightful owner.
//   - InitProducerID with an epoch that is stale is accepted and fences the owner. Kafka refuses it.
//   - Compaction does not stop at the last stable offset: a record of an open transaction that is
//     aborted later removes the committed record of its key.
//   - Compaction moves the start of the log, where Kafka leaves it. So the start tells nothing here, and Holdfast's
//     guard against a snapshot log whose head was deleted (R26) is off on this broker: a flow restores from what
//     is left. On Kafka it stops.
//   - A stable offset fetch waits for any open transaction of the group, where Kafka waits for one
//     that has offsets of the partition that is asked for.
//   - One group cannot have members of both protocols. A member of KIP-848 that comes to classic ones is
//     answered GROUP_ID_NOT_FOUND for as long as they are there. A classic one that comes to members of
//     KIP-848 is given partitions, which they own, and its commits are refused with UNKNOWN_MEMBER_ID: its
//     partitions are granted and lost in turn. Kafka 4 has both in one group, and moves it over.
//   - Any topic setting is accepted, whether or not Kafka knows it.
//
// Besides, transactions complete at once: there is no moment in which a transaction is decided and
// its markers are not written, so that CONCURRENT_TRANSACTIONS is never seen. Compaction runs once an
// hour, whatever the dirty ratio. Wrong SASL credentials end the connection without an error code.
package devbroker
