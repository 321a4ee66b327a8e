// Package outputs tests, on real brokers, what pipes and flows under FencedOutputs promise: outputs,
// snapshots, progress and offset in one transaction, whole or not at all, over refusals, unknown
// outcomes and kills at each step of a commit. The package has no code of its own: everything is in its
// test files.
package outputs
