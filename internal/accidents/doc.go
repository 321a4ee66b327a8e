// Package accidents tests what becomes of a flow and a pipe when their offsets and logs meet an accident:
// offsets that expire or are reset, topics that are truncated, made again, widened or compacted at any
// moment, and processes that write after they should not. Each case asserts the named outcome, takes the
// way out that the error names, and has the history judged: it is clean, or says exactly what was lost.
//
// Cases marked "nightly" run with HOLDFAST_NIGHTLY=1, or by make accidents.
package accidents
