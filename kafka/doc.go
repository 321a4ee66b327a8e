// Package kafka says how to reach a Kafka cluster. One Config is shared by every component and by
// the command: brokers, TLS, SASL, and raw client options as an escape hatch.
//
// A Config is made by hand, or read with FromProperties from the client.properties file that the
// tools of Apache Kafka use. Ping makes a first contact and says in words what is wrong with an
// address, a certificate or a password.
//
// Raw options (Config.Opts) are those of franz-go's kgo package, so this package promises kgo's
// major version. Options that a guarantee rests on are refused by name with
// stream.ErrReservedOption; everything else is honoured.
//
// A Config is a value. All its methods are safe for concurrent use as long as nobody changes what
// its fields refer to.
package kafka
