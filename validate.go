package holdfast

import "github.com/holdfast-go/holdfast/internal/job"

// faults are those that only a flow can have; the rest is found with every component's.
func (c Config[S]) faults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, job.Fault(format, args...)) }
	if len(c.Inputs) != 1 || c.Inputs[0] == "" {
		fault("Inputs must name exactly one topic, it names %d", len(c.Inputs))
	}
	if c.Codec == nil {
		fault("Codec is required: codec.JSON[YourState]() is a good first choice")
	}
	if c.Fold == nil {
		fault("Fold is required")
	}
	return faults
}
