package pipe

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/stream"
)

// Apply calls Func for one record, as the pipe does, and returns what it sends. It is for tests: it
// needs no broker and no other fields than Func and Outputs. A panic of Func comes back as an error, and
// so does a message for a topic that Outputs does not name (stream.ErrUndeclaredOutput).
func (c Config) Apply(ctx context.Context, r stream.Record) (sent []stream.Message, err error) {
	sent, err = engine.Protect(func() ([]stream.Message, error) { return c.call(ctx, r) })
	for _, m := range sent {
		if err == nil && !slices.Contains(c.Outputs, m.Topic) {
			err = fmt.Errorf("%w: %q; add it to Outputs", stream.ErrUndeclaredOutput, m.Topic)
		}
	}
	return sent, err
}
