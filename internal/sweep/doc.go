// Package sweep has the long runs that no commit's tests have time for, in pieces: every crash point under every
// group protocol, every cell of the matrix, every accident, thousands of schedules, hours of kills and pauses, and the
// fuzz targets. A book in the repository says which piece passed, on which commit, and on which product.
//
// A piece that has passed is not run again until the product has changed, so that the whole can be spread over as
// many runs as it takes. The product is the code that users import or run: what a change of a test or a document
// leaves as it was, the pieces need not show again. A fuzz target is about what its package imports, and no more.
// Command run is what does it.
package sweep
