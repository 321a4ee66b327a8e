// Package eos tests exactly-once inside Kafka on real brokers, after Kafka's own transactions system
// test: copiers, each a process of its own, move unique integers from topic to topic in transactions
// while they, or the brokers, are killed and stopped. Members of ours stand in one group with Kafka's
// own Java client. The package has no code of its own: everything is in its test files.
package eos
