// Package fieldcases has tests of failures that users of other stream processors have met, and that no
// other test of this repository shows. docs/field-cases.md lists the cases with their public references.
package fieldcases
