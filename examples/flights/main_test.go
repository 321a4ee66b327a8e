package main

import (
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), &out, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ORD      283", "OK: all 180 airports equal the independent aggregation of 5000 flights"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it prints\n%s\nwithout %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), " 0 by member") {
		t.Errorf("a member folded nothing:\n%s", out.String())
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	flights, err := readFlights()
	if err != nil {
		t.Fatal(err)
	}
	folded := map[string]airport{}
	for _, f := range flights {
		folded[f.Origin] = folded[f.Origin].add(f)
	}
	for name, tc := range map[string]struct {
		change func(map[string]airport)
		wrong  bool
	}{
		"equal":        {func(map[string]airport) {}, false},
		"one repeated": {func(s map[string]airport) { s["ORD"] = s["ORD"].add(flights[0]) }, true},
		"one missing":  {func(s map[string]airport) { delete(s, "LAX") }, true},
		"one too many": {func(s map[string]airport) { s["???"] = airport{Flights: 1} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states := maps.Clone(folded)
			tc.change(states)
			if err := verdict(io.Discard, states, aggregate(flights), len(flights)); errors.Is(err, errDiffers) != tc.wrong {
				t.Errorf("verdict %v, want that it differs: %v", err, tc.wrong)
			}
		})
	}
}
