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
// [Restore] is the read for the owner of a partition who keeps snapshots in this format, as a flow does.
// fence.Restore is the plainer one for a consumer loop of one's own: any records, no diagnosis of a stall.
package snapshot
