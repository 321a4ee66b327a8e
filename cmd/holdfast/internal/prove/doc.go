// Package prove runs exercises on a cluster: each makes a fault, watches what the cluster and the
// client do, and judges a claim by it. Everything that it creates has names of its own under one
// prefix and is removed at the end; nothing else is touched.
//
// An exercise is two parts that do not know of each other: one acts and fills an observation, and the
// observation judges itself. The second part has no cluster in it, so that tests give it the worlds
// that a right cluster never shows.
package prove
