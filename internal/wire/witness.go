package wire

import (
	"strconv"
	"strings"
)

// KindFlow is the kind of component whose witnesses leave it out.
const KindFlow = "flow"

// Witness names one commit of one component: what kind it is, under which grant, and the how-manieth
// of that grant. It is the metadata of the committed offset, so that an unknown outcome can be told
// from somebody else's commit of the same offset, and a flow's group from a pipe's.
type Witness struct {
	Nonce, Sequence uint64
	Kind            string // of the component; "" and KindFlow are the same
}

// witnessPrefix marks the metadata of an offset that was committed by Holdfast.
const witnessPrefix = "hf1:"

// Metadata returns the witness as the metadata of an offset.
func (w Witness) Metadata() string {
	m := witnessPrefix + strconv.FormatUint(w.Nonce, 16) + ":" + strconv.FormatUint(w.Sequence, 16)
	if w.Kind != "" && w.Kind != KindFlow {
		m += ":" + w.Kind
	}
	return m
}

// ParseWitness reads metadata; Kind is never empty then. It reports false for the metadata of an offset
// that was committed by anything else.
func ParseWitness(metadata string) (Witness, bool) {
	rest, ok := strings.CutPrefix(metadata, witnessPrefix)
	nonce, rest, found := strings.Cut(rest, ":")
	sequence, kind, named := strings.Cut(rest, ":")
	if !ok || !found || named && kind == "" {
		return Witness{}, false
	}
	n, err1 := strconv.ParseUint(nonce, 16, 64)
	s, err2 := strconv.ParseUint(sequence, 16, 64)
	if err1 != nil || err2 != nil {
		return Witness{}, false
	}
	if !named {
		kind = KindFlow
	}
	return Witness{Nonce: n, Sequence: s, Kind: kind}, true
}
