// Package soak has no code but its tests: a group of three members under a fixed load for as long as
// HOLDFAST_SOAK says, with kills and pauses at random, judged by the checker and by what its processes
// use at the beginning and at the end.
package soak
