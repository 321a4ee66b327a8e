// Package crash kills a member between each two requests of its protocol, and cuts its connections
// there. The places are not written down anywhere: a recorder on real Kafka watches an undisturbed run of
// one member (it joins, takes over, restores, folds, commits, gives a partition up, leaves), and Tracker
// makes of what was seen the list of its pairs of consecutive requests. The sweep then goes to each of
// them, in the same run of the test:
//
//   - the process is killed, or cut off while another member goes on, or its connection is reset once;
//   - when the first request was answered and the second has not reached the broker, or when the broker
//     has carried the first one out and its answer never comes.
//
// A pair at which the fault could not be placed fails the test, and so does one that leaves anything but
// the result of its input.
//
// Requests are ordered for each partition, and for the group. A request that names a partition, or its
// transactional id, is a step of that partition; one that speaks for the member (JoinGroup, SyncGroup,
// LeaveGroup) is a step of all of them; one that names none, as a new producer id, belongs to the partition
// that the scenario gives records to. No steps are:
//
//   - what clients say in the background, or only ask: Heartbeat, Fetch of the input, Metadata,
//     ApiVersions, FindCoordinator, descriptions;
//   - what comes before the first JoinGroup, but for the probe of the fence, which has an order of its own;
//   - a request that is sent again after an answer that asks for it;
//   - the further Produce and AddPartitionsToTxn of one transaction, and the further Fetch of one restore:
//     how many there are depends on how the client's batches fall.
//
// What is not known here is a step, so that a new request does not go by unseen.
package crash
