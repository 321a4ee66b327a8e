package member

import "sync"

// once calls a function for the first of its callers, and has the others wait until it has returned. It
// is for what blocks: sync.Once would hold its lock meanwhile. The zero value is ready.
type once struct {
	mu   sync.Mutex
	done chan struct{} // nil: nobody has called
}

func (o *once) do(f func()) {
	o.mu.Lock()
	done := o.done
	if done == nil {
		o.done = make(chan struct{})
	}
	own := o.done
	o.mu.Unlock()
	if done != nil {
		<-done
		return
	}
	defer close(own)
	f()
}
