// Package fence writes to Kafka as the one owner of a partition, under any consumer loop.
//
// A [Group] turns the callbacks of a consumer-group member into ownerships. A [Writer] writes
// records and the input offset of one owned partition in one transaction that the broker refuses
// from anybody but the present owner: every transaction carries the offset, bound to the member id
// and generation of the group (KIP-447), and every owner of a partition initialises the same
// transactional id, which aborts what the owner before it left open.
package fence
