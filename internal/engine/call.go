package engine

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/stream"
)

// Call is the handle that a fold gets for one step: the key's state, and what the step does. It is
// valid until the fold returns; any later use panics. It is not safe for concurrent use. Several
// folds that are called with the same Call make one step together.
type Call[S any] struct {
	// The step is a field of the engine and used again by the next one; the handle is not, so that
	// a handle that was kept cannot reach into another record's step.
	step *step[S]
}

// step is what one call of the fold has done so far. Nothing of it reaches the key before the fold
// has succeeded.
type step[S any] struct {
	engine  *Engine[S]
	key     []byte
	entry   *entry[S] // nil: the key is unknown
	work    S         // the state as the step sees it
	has     bool      // work is a state
	loaded  bool      // work and has are set
	shared  bool      // work shares memory with the key's state
	copied  bool      // before is the state as it was
	before  []byte
	lacks   error // why there is no copy
	deleted bool  // Delete was called last
	persist bool
	outputs []stream.Message
	err     error
}

func (c *Call[S]) current(method string) *step[S] {
	if c.step == nil {
		panic("holdfast: " + method + " was called on a key handle after the fold it was passed to had returned; " +
			"a handle is valid during that one call only")
	}
	return c.step
}

// Bytes returns the key. It must not be changed, and may be kept.
func (c *Call[S]) Bytes() []byte { return c.current("Bytes").key }

// State returns the key's state, with what this step has set so far. ok is false if the key has
// none. A fold may change the returned value in place: if the step succeeds, the change is kept
// even without a Set.
func (c *Call[S]) State() (s S, ok bool) {
	st := c.current("State")
	st.load()
	return st.work, st.has
}

// load gives the step a value to work on that can be thrown away: a copy made by assignment or by
// Clone. Without either the fold gets the state itself, and a failure spoils it, unless it can be
// read back from a copy by the codec (CopyByCodec).
func (s *step[S]) load() {
	if s.loaded {
		return
	}
	if s.entry != nil && s.entry.has {
		c := &s.engine.cfg
		if s.has = true; c.Plain || c.Clone == nil {
			s.work = s.entry.state
			if s.shared = !c.Plain; s.shared && s.engine.copies {
				s.engine.copyState(s)
			}
		} else {
			s.work = c.Clone(s.entry.state)
		}
	}
	s.loaded = true
}

// Set makes s the key's state.
func (c *Call[S]) Set(s S) {
	st := c.current("Set")
	st.work, st.has, st.loaded, st.deleted = s, true, true, false
}

// Delete removes the key's state.
func (c *Call[S]) Delete() {
	st := c.current("Delete")
	var zero S
	st.work, st.has, st.loaded, st.deleted = zero, false, true, true
}

// Emit adds an output to the step. It is dropped if the step fails. A topic that is not declared
// fails the step with stream.ErrUndeclaredOutput, a message that its topic does not take with
// stream.ErrTooLarge, and one with a timestamp that cannot be written with stream.ErrOutput.
func (c *Call[S]) Emit(m stream.Message) {
	st := c.current("Emit")
	if err := st.engine.permits(m); err != nil {
		if st.err == nil {
			st.err = err
		}
		return
	}
	m.Headers = withoutState(m.Headers)
	st.outputs = append(st.outputs, m)
}

// permits says why m cannot be an output; nil if it can.
func (e *Engine[S]) permits(m stream.Message) error {
	limit, declared := e.cfg.Outputs[m.Topic]
	size := m.BatchBytes()
	switch {
	case m.Topic == "":
		return fmt.Errorf("%w: Message.Topic is empty; name one of Outputs", stream.ErrUndeclaredOutput)
	case !declared:
		return fmt.Errorf("%w: %q; add it to Outputs", stream.ErrUndeclaredOutput, m.Topic)
	case limit > 0 && size > stream.MaxBatchBytes(limit):
		return fmt.Errorf("%w: %w: %d bytes with overhead for topic %s, which takes %d", stream.ErrOutput, stream.ErrTooLarge, size, m.Topic, stream.MaxBatchBytes(limit))
	case !m.Timestamp.IsZero() && !stream.Carried(m.Timestamp):
		return fmt.Errorf("%w: the timestamp for topic %s is %d ms, and the Kafka client carries the years 1678 to 2261: give the message another one",
			stream.ErrOutput, m.Topic, m.Timestamp.UnixMilli())
	}
	return nil
}

// withoutState returns headers without those of a snapshot topic.
func withoutState(hs []stream.Header) []stream.Header {
	is := func(h stream.Header) bool { return h.Key == stream.SnapshotHeader }
	if !slices.ContainsFunc(hs, is) {
		return hs
	}
	return slices.DeleteFunc(slices.Clone(hs), is)
}

// Persist makes the key due at once. It is dropped within PersistCooldown of the last one of this
// key that was not dropped; the key is then due at its usual time.
func (c *Call[S]) Persist() { c.current("Persist").persist = true }
