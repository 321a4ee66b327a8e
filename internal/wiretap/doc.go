// Package wiretap is a TCP proxy that understands Kafka's frames. A test, or a program that shows a
// fault, puts one before each broker: it watches requests and answers, holds, drops and cuts them at a
// chosen point of the protocol, and counts the stale writes that the broker refused.
//
//	tap, err := wiretap.NewCluster(brokers)
//	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.Dialer(tap.Dialer()))
//	hold := tap.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.JoinGroup))
//	err = hold.Await(ctx, 1) // a JoinGroup has left the client and has not reached the broker
//	hold.Lift()              // it goes on
//
// Clients dial the advertised addresses and the Dialer takes them to the proxies, so that brokers need
// no other listeners. A child process gets Map and makes the same Dialer with DialerFor.
//
// Frames are read only on plaintext connections. Kafka answers the requests of one connection in their
// order, so that a held request also holds the later ones of its connection; other connections run on.
// (kgo gives JoinGroup and SyncGroup, Produce, and Fetch connections of their own.)
//
// Everything is safe for concurrent use.
package wiretap
