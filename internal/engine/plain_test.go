package engine

import (
	"reflect"
	"testing"
	"time"
	"unsafe"
)

type tree struct{ Left, Right *tree }

func TestHoldsReferences(t *testing.T) {
	t.Parallel()
	type inner struct {
		N    int
		Name string
		At   time.Time
	}
	for name, c := range map[string]struct {
		typ  reflect.Type
		want bool
	}{
		"int":                    {reflect.TypeFor[int64](), false},
		"bool":                   {reflect.TypeFor[bool](), false},
		"complex":                {reflect.TypeFor[complex128](), false},
		"string":                 {reflect.TypeFor[string](), false},
		"named string":           {reflect.TypeFor[Outcome](), false},
		"uintptr":                {reflect.TypeFor[uintptr](), false},
		"time":                   {reflect.TypeFor[time.Time](), false},
		"duration":               {reflect.TypeFor[time.Duration](), false},
		"empty struct":           {reflect.TypeFor[struct{}](), false},
		"struct of plain":        {reflect.TypeFor[inner](), false},
		"array of plain":         {reflect.TypeFor[[4]inner](), false},
		"array of time":          {reflect.TypeFor[[2]time.Time](), false},
		"no element of pointers": {reflect.TypeFor[[0]*int](), false},
		"nested plain":           {reflect.TypeFor[struct{ A [2]struct{ B inner } }](), false},
		"pointer":                {reflect.TypeFor[*int](), true},
		"pointer to time":        {reflect.TypeFor[*time.Time](), true},
		"slice":                  {reflect.TypeFor[[]byte](), true},
		"map":                    {reflect.TypeFor[map[string]int](), true},
		"channel":                {reflect.TypeFor[chan int](), true},
		"func":                   {reflect.TypeFor[func()](), true},
		"any":                    {reflect.TypeFor[any](), true},
		"error":                  {reflect.TypeFor[error](), true},
		"unsafe pointer":         {reflect.TypeFor[unsafe.Pointer](), true},
		"struct with map":        {reflect.TypeFor[struct{ M map[int]int }](), true},
		"struct with interface":  {reflect.TypeFor[struct{ V any }](), true},
		"array of slices":        {reflect.TypeFor[[3][]int](), true},
		"deeply nested pointer":  {reflect.TypeFor[[1]struct{ A [1]struct{ P *int } }](), true},
		"unexported field":       {reflect.TypeFor[struct{ m map[int]int }](), true},
		"recursive":              {reflect.TypeFor[tree](), true},
	} {
		if got := holdsReferences(c.typ); got != c.want {
			t.Errorf("%s: holdsReferences(%v) = %v, want %v", name, c.typ, got, c.want)
		}
	}
	if HoldsReferences[inner]() || !HoldsReferences[tree]() || !HoldsReferences[any]() {
		t.Error("HoldsReferences does not agree with its walk")
	}
}
