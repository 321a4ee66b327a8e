package wire

import (
	"math"
	"testing"
)

func TestWitness(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		metadata string
		want     Witness
	}{
		{"hf1:ff:2", Witness{Nonce: 255, Sequence: 2, Kind: KindFlow}},
		{"hf1:ffffffffffffffff:ffffffffffffffff:pipe", Witness{Nonce: math.MaxUint64, Sequence: math.MaxUint64, Kind: "pipe"}},
	} {
		got, ok := ParseWitness(c.metadata)
		if !ok || got != c.want || got.Metadata() != c.metadata {
			t.Errorf("%q is %+v, %v, and back %q, want %+v", c.metadata, got, ok, got.Metadata(), c.want)
		}
	}
	if m := (Witness{Nonce: 255, Sequence: 2}).Metadata(); m != "hf1:ff:2" {
		t.Errorf("without a kind it is %q", m)
	}
	for _, m := range []string{"", "hf1:", "hf1:1", "hf1:x:1", "hf1:1:", "hf1:1:1:", "hf1:1:x:pipe", "hf2:1:1", "note by an operator"} {
		if got, ok := ParseWitness(m); ok || got != (Witness{}) {
			t.Errorf("%q gives %+v, %v", m, got, ok)
		}
	}
}

// FuzzParseWitness: whatever stands in the metadata of an offset is a witness that comes back from its own
// metadata, or none at all.
func FuzzParseWitness(f *testing.F) {
	for _, m := range []string{"", "hf1:ff:2", "hf1:ffffffffffffffff:ffffffffffffffff:pipe", "hf1:1:1:", "hf1:-1:+1", "hf1:0x1:1_0", "hf1:1:2:flow", "note by an operator"} {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, metadata string) {
		w, ok := ParseWitness(metadata)
		if !ok {
			if w != (Witness{}) {
				t.Fatalf("%q is no witness, and gives %+v", metadata, w)
			}
			return
		}
		if again, ok := ParseWitness(w.Metadata()); !ok || again != w || w.Kind == "" {
			t.Fatalf("%q gives %+v, whose metadata %q gives %+v, %v", metadata, w, w.Metadata(), again, ok)
		}
	})
}
