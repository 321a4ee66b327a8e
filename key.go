package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/stream"
)

// Key is the handle of one key during one call of a fold. It must not be used after the call, nor
// from another goroutine: later use panics.
type Key[S any] struct {
	call *engine.Call[S]
}

// Bytes returns the key. It may be kept, not changed.
func (k *Key[S]) Bytes() []byte { return k.call.Bytes() }

// State returns the state of the key as it is within this step, and whether there is one. Where S
// holds references it may be changed in place: if the step succeeds the change is kept, and the next
// snapshot has it, also without a Set; if it fails, the copy that Config.Clone made is dropped, and
// without Clone the partition is restored. What S itself holds, as a field of a struct, is a copy, and
// a change of it needs a Set.
func (k *Key[S]) State() (s S, ok bool) { return k.call.State() }

// Set makes s the state of the key. It is kept in memory at once and written with the next snapshot
// of the key (Commit.Persist).
func (k *Key[S]) Set(s S) { k.call.Set(s) }

// Delete ends the state of the key. The key is remembered as deleted until the committed offset has
// passed the record, so that a replay does not bring it back.
func (k *Key[S]) Delete() { k.call.Delete() }

// Emit writes m to one of Config.Outputs. Under FencedOutputs it is in the transaction that has the
// state and the offset of its step. Otherwise it is sent after the step succeeded, dropped if it failed,
// and acknowledged by the broker before a snapshot that covers the step can commit: at-least-once,
// in the order of the steps of a key where m.Key is the same. A topic that Outputs does not name
// fails the step with ErrUndeclaredOutput.
func (k *Key[S]) Emit(m stream.Message) { k.call.Emit(m) }

// Persist asks for a snapshot of the key with the next commit instead of waiting for
// Commit.Persist. A request within Commit.PersistCooldown of the key's last one is dropped.
func (k *Key[S]) Persist() { k.call.Persist() }

// Chain returns a fold that calls each of folds in turn on the same key and record, as one step: if
// one fails, nothing of any of them remains.
func Chain[S any](folds ...func(context.Context, *Key[S], stream.Record) error) func(context.Context, *Key[S], stream.Record) error {
	return func(ctx context.Context, k *Key[S], r stream.Record) error {
		for _, fold := range folds {
			if err := fold(ctx, k, r); err != nil {
				return err
			}
		}
		return nil
	}
}
