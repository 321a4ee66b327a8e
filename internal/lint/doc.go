// Package lint holds the rules of this repository as code: which package may import which, how long a
// function may be, which documents name files, tests and targets that have to exist. Its tests run
// every rule over the repository, and feed every rule a small bad tree that it has to refuse.
package lint
