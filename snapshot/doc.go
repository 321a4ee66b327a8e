// Package snapshot has the format of the records in a snapshot topic, and the read that brings a
// partition's state back.
//
// A snapshot record's value is the user's own bytes, so that any consumer can read a state topic.
// What Holdfast needs beside them travels in one binary header named "holdfast". Keys that begin
// with a single zero byte are reserved for Holdfast's own records; a user's key that begins with a
// zero byte is written with one more in front.
package snapshot
