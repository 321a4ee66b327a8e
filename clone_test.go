package holdfast_test

import (
	"bytes"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
)

// New warns where a step that fails could not be undone, and only there.
func TestNewWarnsOfAStateWithoutClone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ warned, want bool }{
		"a number":             {warned(t, codec.JSON[int](), nil), false},
		"a map":                {warned(t, codec.JSON[map[string]int](), nil), true},
		"a map, and its Clone": {warned(t, codec.JSON[map[string]int](), maps.Clone[map[string]int]), false},
	} {
		if c.warned != c.want {
			t.Errorf("%s: warned %t, want %t", name, c.warned, c.want)
		}
	}
}

func warned[S any](t *testing.T, c codec.Codec[S], clone func(S) S) bool {
	t.Helper()
	var out bytes.Buffer
	_, err := holdfast.New(holdfast.Config[S]{
		Kafka: kafka.Config{Brokers: []string{"127.0.0.1:1"}}, Group: "g", Inputs: []string{"in"},
		Codec: c, Clone: clone, Fold: holdfast.Chain[S](), Logger: slog.New(slog.NewTextHandler(&out, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(out.String(), "the state holds references and there is no Clone")
}
