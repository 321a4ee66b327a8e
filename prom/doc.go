// Package prom turns what a flow or a pipe reports through its hooks into Prometheus metrics. It is a
// module of its own, so that nobody else has the Prometheus client in their build.
//
// All names begin with "holdfast_" unless [Options.Namespace] says otherwise. Counters and gauges have
// the labels topic and partition, those of the input; durations are histograms by topic alone, since
// buckets for every partition would be thousands of series.
//
//	holdfast_ownerships_granted_total                 partitions granted to this process
//	holdfast_takeovers_total                          grants that found another's epoch on the transactional id
//	holdfast_takeover_duration_seconds                takeover and fetch of the stable offset (histogram)
//	holdfast_ownerships_revoked_total{flushed}        given up in a revoke or at a stop; flushed: everything folded was committed
//	holdfast_ownerships_lost_total{cause}             partitions lost, nothing flushed; cause: as stream.Cause names it
//	holdfast_revoke_duration_seconds                  from the revoke callback to its return (histogram)
//	holdfast_restores_total                           restores that reached their target
//	holdfast_retained_total                           partitions that came back with their states still in memory, instead of a restore
//	holdfast_restore_records_total                    snapshot records that they read
//	holdfast_restore_bytes_total                      bytes that they read
//	holdfast_restore_duration_seconds                 how long they took (histogram)
//	holdfast_restore_stalls_total{final}              warnings, and failures, of restores without progress
//	holdfast_input_stalls_total                       waits of the input for an open transaction of another producer
//	holdfast_transactions_committed_total             transactions known to be committed
//	holdfast_transaction_read_backs_total             those whose outcome was unknown at first and read back
//	holdfast_transaction_duration_seconds             how long a transaction took (histogram)
//	holdfast_transactions_refused_total{cause,final}  attempts that did not commit, cause as stream.Refused has it; final: the ownership ended
//	holdfast_transaction_outputs_total                outputs and dead letters that were in the committed ones
//	holdfast_transaction_output_bytes_total           bytes of them
//	holdfast_snapshot_writes_total                    snapshots and tombstones committed
//	holdfast_snapshot_bytes_total                     bytes of them
//	holdfast_step_failures_total{action}              steps that failed; action: what OnError decided, as stream.Action names it
//	holdfast_dead_letters_total                       records handed to the dead-letter topic
//	holdfast_gone_offsets_total                       offsets of the input that were passed over, since what was there is gone
//	holdfast_outputs_acknowledged_total               output records acknowledged by the broker
//	holdfast_output_bytes_total                       bytes of them
//	holdfast_partitions_owned                         partitions that this process owns (gauge, by topic alone)
//	holdfast_stops_total{cause}                       stops with an error, cause as stream.Cause names it (this label alone)
//	holdfast_throttled_seconds_total{broker}          time for which a broker has held this process back, by its node id (this label alone)
//
// and, only while this process owns the partition:
//
//	holdfast_generation                               generation of the group at the grant
//	holdfast_committed_offset                         next input offset, as committed; absent if there is none
//	holdfast_last_commit_timestamp_seconds            Unix time of the last commit; before the first one, of the grant
//	holdfast_restored_keys                            keys that the last restore brought back
//	holdfast_restore_position                         next offset of the snapshot partition that the restore reads
//	holdfast_restore_target                           offset of the snapshot partition at which the restore ends
//	holdfast_restore_stalled_seconds                  how long the restore has made no progress; 0: it does
//	holdfast_input_stalled_seconds                    how long the input has been waiting for an open transaction; 0: it does not
//
// The fences are holdfast_transactions_refused_total with cause generation (ordinary in a rebalance),
// producer-epoch, member and instance. The share of attempts that failed is refused / (committed + refused).
// Counters that alert rules watch are there as 0 from the grant on, since the rate of a counter that
// appears as 1 is 0.
//
// A pipe has no state, so that its restore and snapshot metrics stay away or at 0; its outputs are those
// of transactions. Several flows and pipes share a registerer if [Options.ConstLabels] tells them apart.
//
// The end of the input is not in here, because a flow does not ask for it: the lag is the difference of
// a broker exporter's end offset and holdfast_committed_offset. The markers of transactions on the input
// take offsets, and the committed offset passes over them, so that it is 0 on an idle input. A partition
// whose input is idle commits nothing, so that time() - holdfast_last_commit_timestamp_seconds means
// something only where the input goes on. Both are in alerts.yaml, the alert rules beside this package; docs/operations.md
// has what to do about each.
//
// A process that ends with Run takes its last counts with it. Serve the metrics for two scrape intervals
// more, or alert on the log lines of docs/operations.md as well.
package prom
