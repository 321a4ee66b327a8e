package holdfasttest

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// FuzzParseMetadata holds the checker's own reading of a committed offset's metadata against the
// product's: what the checker takes for a commit is one.
func FuzzParseMetadata(f *testing.F) {
	for _, m := range []string{"", "hf1:ff:2", "hf1:ff:2:pipe", "hf1:0:1", "hf1:1:1:", "hf1:1:1:a:b", "hf2:1:1"} {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, metadata string) {
		nonce, sequence, ok := parseMetadata(metadata)
		w, known := wire.ParseWitness(metadata)
		if ok && known && (w.Nonce != nonce || w.Sequence != sequence) {
			t.Errorf("%q is %d, %d to the checker and %+v to the product", metadata, nonce, sequence, w)
		}
		if known && !ok && w.Nonce != 0 && w.Sequence != 0 && !strings.Contains(w.Kind, ":") {
			t.Errorf("%q is %+v to the product and nothing to the checker", metadata, w)
		}
	})
}

// FuzzReadMembers reads what a process that was killed may have left of its record: any bytes.
func FuzzReadMembers(f *testing.F) {
	f.Add("{\"Member\":\"a\",\"Kind\":\"folded\"}\n{\"Memb")
	f.Add("\n\n")
	f.Add("null\n1\n[]\n")
	f.Fuzz(func(t *testing.T, text string) {
		members, err := ReadMembers(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, m := range members {
			for _, e := range m.Events {
				if e.Member != m.Name {
					t.Errorf("member %q has an event of %q", m.Name, e.Member)
				}
			}
		}
	})
}
