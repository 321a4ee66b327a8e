// Package accidents tests what becomes of a flow and a pipe when their offsets and logs meet an accident:
// offsets that expire or are reset, topics that are truncated, made again, widened or compacted at any
// moment, and processes that write after they should not. Each case asserts the named outcome, takes the
// way out that the error names, and has the history judged: it is clean, or says exactly what was lost.
//
// What has the accident is a flow under FencedState and under FencedOutputs, and a pipe. A flow under Unfenced
// claims less: the committed offset is never ahead of the snapshots, and a state is that of its records, each
// once, while no stale owner writes. It is here for accidents without one: the offset missing, the offset
// behind the snapshots, input or snapshots truncated between runs, and snapshots under a restore. Nothing tells it that they
// are truncated under a running member, whose cluster is to be without such elections: see claim.Flow.
//
// Cases marked N run with HOLDFAST_NIGHTLY=1, or by make accidents. Tests without a package are here.
//
//	offset missing, reset back or forward    TestKafkaOffsetAccidents, acceptance TestKafkaStartTable
//	offset expires by itself                 TestKafkaOffsetExpires (N)
//	offset moved under a running member      TestKafkaOffsetsOfARunningMember
//	retention overtakes                      TestKafkaRetentionOvertakes
//	input truncated                          TestKafkaTruncationBetweenRuns, TestKafkaTruncationUnderAMember (N)
//	snapshots truncated, also mid-restore    the same; fence TestWriterDoesNotGoOnInALogThatLostItsTail
//	applied ahead of the offset, truncated   TestKafkaTruncationBetweenRuns (N); engine TestBatchKnowsHowFarItsSnapshotsAre
//	input made again                         TestKafkaInputRecreatedWhileStopped, …WhileRunning
//	snapshots made again                     TestKafkaSnapshotsRecreatedWhileStopped, …WhileRunning (N)
//	partitions added                         TestKafkaPartitionsAddedWhileStopped, …WhileRunning, …ToTheSnapshots
//	compaction between any two steps         TestKafkaCompactionBetweenAnyTwoSteps (N), TestKafkaCompactionUnderARestore (N)
//	delete.retention passed while down       TestKafkaDeleteRetentionPassesWhileDown (N)
//	aborted tails                            outputs TestKafkaRestorePastAbortedTail, wire TestKafkaViewOverCompactedLog
//
// Stale owners, for FencedState in acceptance, and here for outputs in transactions and for pipes:
//
//	a live member's late commit (R3)         TestKafkaLateCommitForALostPartition; TestKafkaRevokeWithACommitInFlight
//	an id initialised late (R4)              TestKafkaStaleOwnerInitialisesLate; TestKafkaDuel
//	the silent rejoin (R2)                   TestKafkaSilentRejoin; TestKafkaSilentRejoinWithTheSuccessorAlive, …Gone
//	a hijacked id (R8)                       TestKafkaHijackedID; TestKafkaStrangerUnderTheSameID; eos TestKafkaForeignUseOfATransactionalID
//	two applications under one id            TestKafkaTwoApplicationsUnderOneID
//	a paused owner's late output (R16)       TestKafkaStoppedWithAHeartbeatAnswerInFlight; TestKafkaPausedOwnersLateOutput, where the transaction has it
package accidents
