package engine

import (
	"reflect"
	"time"
)

// HoldsReferences reports whether a value of type S may share memory with a copy of it made by
// assignment. If it does not, an assignment is a copy, and a failed step can be undone without a
// Clone function.
//
// Strings count as plain because they cannot be changed, and time.Time because no method changes
// the *time.Location it points to.
func HoldsReferences[S any]() bool { return holdsReferences(reflect.TypeFor[S]()) }

// holdsReferences ends for every type: a type can only contain itself through a pointer, slice,
// map, channel, function or interface, and none of those is looked into.
func holdsReferences(t reflect.Type) bool {
	if t == reflect.TypeFor[time.Time]() {
		return false
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Uintptr,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return false
	case reflect.Array:
		return t.Len() > 0 && holdsReferences(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsReferences(t.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return true
}
