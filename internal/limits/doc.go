// Package limits has the tests of what lies at the edge of what Kafka, the machine and the other
// programs on a cluster allow: batches that decompress to gigabytes, records that somebody else wrote
// into a snapshot topic, permissions that are taken away in mid-run, topics whose limits are lowered,
// transactions that time out as they are committed, disks that are full. Each ends with an error that
// names the place and the next step, and with nothing lost. It has no code of its own.
package limits
