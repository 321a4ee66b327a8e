package pipe

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/stream"
)

// Apply calls Func for one record, as the pipe does, and returns what it sends. It is for tests: it
// needs no broker and no other field than Func. A panic of Func comes back as an error.
func (c Config) Apply(ctx context.Context, r stream.Record) (sent []stream.Message, err error) {
	return engine.Protect(func() ([]stream.Message, error) { return c.call(ctx, r) })
}
