// Package snapshot has the format of the records in a snapshot topic, and the read that brings a
// partition's state back.
//
// A snapshot record's value is the user's own bytes, so that any consumer can read a state topic.
// What Holdfast needs beside them travels in one binary header named "holdfast". Keys that begin
// with a single zero byte are reserved for Holdfast's own records; a user's key that begins with a
// zero byte is written with one more in front.
//
// To read the states from another program: read_committed, leave out what [Reserved] reports, and give
// the rest to [Decode]. A null value means that the key is gone; an empty one that it is deleted, has no
// state, or has one that its codec wrote as nothing, which only the header tells apart.
//
// After a rebuild the flow begins with no state and writes under the next incarnation ([Header]). A record of a
// lower incarnation than that of the partition's newest progress record (fence.DecodeProgress), or than the
// highest that was seen in the partition, does not count. It stays the newest of its key until the flow has
// written a tombstone for it, soon after the first commit of the rebuild, or until the key comes again: a reader
// that looks at keys and values alone is right after that. The tombstone has the new incarnation, and -1 as its
// applied offset, since no record of the input has made it.
//
// [Restore] is the read for the owner of a partition who keeps snapshots in this format, as a flow does.
// fence.Restore is the plainer one for a consumer loop of one's own: any records, no diagnosis of a stall.
package snapshot
