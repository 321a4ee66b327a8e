// Package devbroker is a Kafka broker inside the process, for demonstrations, development and tests.
// It needs no Java, no container and no network but the loopback, and starts in milliseconds.
//
// NEVER USE IT IN PRODUCTION, and never take it as proof of a fencing claim. It is franz-go's kfake:
// one broker, no replication, and faithful to Apache Kafka but for these gaps, which a test of this
// package holds true for the pinned version:
//
//   - A fenced producer that aborts while its successor is idle can be handed the successor's epoch,
//     and is unfenced by it. Kafka answers PRODUCER_FENCED.
//   - A produce request of a fenced producer still opens a transaction, whose timeout then fences the
//     rightful owner.
//   - InitProducerID with an epoch that is stale is accepted and fences the owner. Kafka refuses it.
//   - OffsetForLeaderEpoch after a leader moved and before anything was written answers "undefined",
//     which a client takes for data loss unless it never resets its offset.
//   - Compaction does not stop at the last stable offset: a record of an open transaction that is
//     aborted later can remove the committed record of its key.
//   - Transactions complete at once. There is no moment in which a transaction is decided and its
//     markers are not written, so that CONCURRENT_TRANSACTIONS is never seen.
//   - A stable offset fetch waits for any open transaction of the group, where Kafka waits for one
//     that has offsets of the partition that is asked for.
//   - Compaction runs once an hour and not by dirty ratio; log retention by time and size is coarse.
package devbroker
