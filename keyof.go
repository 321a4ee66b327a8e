package holdfast

import "github.com/holdfast-go/holdfast/internal/engine"

// KeyOf returns the handle of one call of a fold. It is for Holdfast's own test kit, which calls a
// Config's Fold as a flow does: nobody else can make a Call.
func KeyOf[S any](call *engine.Call[S]) *Key[S] { return &Key[S]{call} }
