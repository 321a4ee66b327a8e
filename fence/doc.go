// Package fence writes to Kafka as the one owner of a partition, under any consumer loop.
//
// A [Group] turns the callbacks of a consumer-group member into ownerships. A [Writer] writes
// records and the input offset of one owned partition in one transaction that the broker refuses
// from anybody but the present owner: every transaction carries the offset, bound to the member id
// and generation of the group (KIP-447), and every owner of a partition initialises the same
// transactional id, which aborts what the owner before it left open.
//
// A loop of one's own opens a Writer for each ownership, brings its states back with [Restore], tells
// the newest progress record to [Writer.Adopt], and sets the offset to fetch from: the example shows
// all of it. The progress topic belongs to one group alone, has as many partitions as the input, and
// its cleanup.policy has to be "compact"; nothing here checks it. [Restore] hands out the records as
// they are, for states of any format; package snapshot has the read and the format of a flow's states.
package fence
