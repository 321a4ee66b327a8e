// Package acceptance tests whole flows on real Apache Kafka. It has no code of its own: the harness
// and the tests are in its test files, and docs/acceptance.md says which requirement each test is for.
package acceptance
