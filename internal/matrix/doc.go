// Package matrix has no code but its tests: every way of sharing a group's partitions against every
// fault of members and brokers, under load on three brokers. A cell passes when the fault is known to
// have bitten and the run is judged to be right.
package matrix
