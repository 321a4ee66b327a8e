// Package intake bounds in bytes what comes from brokers, between the socket and whoever takes the records.
//
// Whoever may write to a topic decides what its records decompress to, how many headers they have and how large
// one of them is. The client takes a fetch apart as it comes: 1,900 bytes become 60 MiB, or a gigabyte of headers.
// So each connection of a client (Client.Conn) looks into the answers to fetches while they are read: it opens each
// batch within a bound, counts its records and their headers before the client allocates them, and hands on batches
// without compression. What is over the bound is replaced, by a record that says so under a header that nobody else
// can know: see Refused. Offsets, transactions and the order of batches stay as they are.
//
// What was handed on and is not yet taken apart, and what waits in queues, is counted in one Budget. Where there is
// no room the answer ends before the batch, and the client asks for it again.
package intake
