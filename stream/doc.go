// Package stream holds the values that every part of Holdfast shares: records, messages,
// partitions, errors and hook events. It imports the standard library alone, so that any package
// may depend on it.
package stream
