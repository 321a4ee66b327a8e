// Package letters is the part of "holdfast dlq" that is not about flags and printing: which dead letters
// are meant, where each of them would be replayed to, and the sending.
package letters
