// Package virtual runs whole flows and pipes on the embedded broker in virtual time: testing/synctest
// gives the clock, and kfake's VirtualNetwork connections that it can wait on. Hours of a schedule take
// a moment of the machine's. It has no code of its own: harness and tests are in its test files, which
// are built under the tag synctests alone, since that tag is what gives the Kafka client mutexes that
// the virtual clock can wait on.
//
// Time is virtual, the order of goroutines is not: a seed gives the schedule of a run and not its
// interleaving. What a run shows is judged by the checker of holdfasttest; and as the embedded broker is
// no proof of fencing, so is no run here. The claims rest on the tests on real Kafka.
package virtual
