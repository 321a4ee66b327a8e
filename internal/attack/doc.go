// Package attack holds tests of what whoever may write to a topic can do to those that read it. Readers run in
// processes of their own under a hard limit of memory (RLIMIT_DATA), and tell at their end how much they took.
package attack
