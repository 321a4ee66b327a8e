// Package kafkatest runs real Apache Kafka for tests: one or three JVM brokers on free loopback
// ports, from jars that Maven fetches once into a cache. No container engine is needed.
//
// A test that takes any broker uses the one its test binary shares:
//
//	func TestMain(m *testing.M) { kafkatest.Main(m) }
//
//	func TestKafkaSomething(t *testing.T) {
//		k := kafkatest.Start(t)
//		topic := k.CreateTopic(t, kafkatest.UniqueName("orders"), 4, nil)
//		cl := k.Client(t, kgo.ConsumeTopics(topic))
//	}
//
// A test that kills, pauses or configures brokers makes a cluster of its own with New. Names of
// tests that need Kafka begin with TestKafka, so that the Makefile can run them apart from the rest.
//
// # Lifetime
//
// The shared broker starts at the first call of Start and lives as long as the test binary. Main
// stops it and removes its data after the last test. Without Main, and when the binary is killed or
// runs into its -timeout, the kernel kills the brokers (Pdeathsig, Linux only) and the data directory
// is removed by the next test binary that starts a broker.
//
// # Environment
//
//	HOLDFAST_KAFKA_VERSION  the version to run, default DefaultVersion; 4.0.0 and 3.9.1 are known to work
//	HOLDFAST_KAFKA_CACHE    where the jars are kept, default holdfast-kafka in the user's cache directory
//	HOLDFAST_BROKERS        host:port,... of a running cluster that Start uses instead of one of its own
//	CI                      when set, missing Java or Maven fails the test instead of skipping it
//
// # Child processes
//
// A fault test often needs a whole process to stop or kill. Main takes functions that StartChild runs
// in a process of their own: the test binary, executed again. StartJava runs a Java program over
// Kafka's own client in the same way; it needs a JDK. Package copier has one.
package kafkatest
