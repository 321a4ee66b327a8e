// Package demo shows that a flow keeps its promise when its processes are killed, stalled and cut
// off, and what becomes of the state when one of the rules behind the promise is switched off.
//
// One process, the parent, has the broker (or a connection to a cluster), makes the input and makes
// the faults. The members are processes of their own; a tap between each of them and the brokers lets
// the parent see and hold what they send, so that each fault is made at a chosen point of the
// protocol and never by luck. The verdict comes from package audit, which reads the topics from
// outside.
package demo
