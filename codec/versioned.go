package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrNewerVersion is wrapped by the error of Versioned's Decode for bytes that were written by a
// later version of the program. Roll forward again, or give this program the codec that wrote them.
var ErrNewerVersion = errors.New("state was written by a newer version")

// ErrNoVersion is wrapped by the error of Versioned's Decode for bytes without a version. If they are
// states from before the codec was versioned, use AcceptUnversioned.
var ErrNoVersion = errors.New("state has no version")

// marker is the first byte of every versioned state. It is never the first byte of JSON, of any
// UTF-8 text, of a Protobuf message (its wire type would be 7), of gob or of a registry's framing
// (which begins with 0), so that a state from before the versions is told apart for sure.
const marker = 0xF7

// maxPrefix is the marker and the longest varint.
const maxPrefix = 1 + binary.MaxVarintLen64

// Upgrade turns the bytes of one version of a state into those of the next one. It may change old and
// return it, and must be deterministic. The bytes are without the version's prefix.
type Upgrade func(old []byte) ([]byte, error)

// VersionedCodec is what Versioned returns. It is safe for concurrent use if its codec and upgrades
// are.
type VersionedCodec[S any] struct {
	current     Codec[S]
	upgrades    []Upgrade
	unversioned bool
}

// Versioned returns a codec that writes each state with a version in front, and that brings the
// states of older versions up to the current one as they are read. The version is the number of
// upgrades + 1: upgrades[0] turns version 1 into version 2, and so on. To change the format, change
// current and append one upgrade; never remove, change or reorder those that are there.
//
// An old state is upgraded each time it is read and stays as it is in the topic until its key is
// written again.
func Versioned[S any](current Codec[S], upgrades ...Upgrade) VersionedCodec[S] {
	return VersionedCodec[S]{current: current, upgrades: append([]Upgrade{}, upgrades...)}
}

// AcceptUnversioned returns a codec that takes states without a version, those of a program from
// before it used Versioned, to be of version 1.
//
// States whose own bytes can begin with 0xF7 cannot be told from versioned ones; none of JSON, text,
// Protobuf, gob and the framing of a schema registry begins with it.
func (v VersionedCodec[S]) AcceptUnversioned() VersionedCodec[S] {
	v.unversioned = true
	return v
}

// Version returns the version that Append writes.
func (v VersionedCodec[S]) Version() int { return len(v.upgrades) + 1 }

// Append implements Codec.
func (v VersionedCodec[S]) Append(dst []byte, s S) ([]byte, error) {
	out, err := v.current.Append(binary.AppendUvarint(append(dst, marker), uint64(v.Version())), s)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Decode implements Codec. The errors it adds to those of the codec and the upgrades wrap
// ErrNewerVersion or ErrNoVersion.
func (v VersionedCodec[S]) Decode(src []byte) (S, error) {
	var zero S
	version, body, err := v.split(src)
	if err != nil {
		return zero, err
	}
	if version < v.Version() {
		// An upgrade may change the bytes it is given, and these belong to the caller.
		body = append([]byte{}, body...)
	}
	for ; version < v.Version(); version++ {
		if body, err = v.upgrades[version-1](body); err != nil {
			return zero, fmt.Errorf("upgrade state from version %d to %d: %w", version, version+1, err)
		}
	}
	s, err := v.current.Decode(body)
	if err != nil {
		return zero, fmt.Errorf("state of version %d: %w", v.Version(), err)
	}
	return s, nil
}

// split takes the version off src.
func (v VersionedCodec[S]) split(src []byte) (version int, body []byte, err error) {
	if len(src) == 0 || src[0] != marker {
		if v.unversioned {
			return 1, src, nil
		}
		return 0, nil, fmt.Errorf("%w: %d bytes; if it is from before the codec was versioned, use AcceptUnversioned",
			ErrNoVersion, len(src))
	}
	n, size := binary.Uvarint(src[1:min(len(src), maxPrefix)])
	if size <= 0 || n == 0 {
		return 0, nil, fmt.Errorf("%w: the version after the marker byte is damaged", ErrNoVersion)
	}
	if n > uint64(v.Version()) {
		return 0, nil, fmt.Errorf("%w: %d, and this program knows versions 1 to %d", ErrNewerVersion, n, v.Version())
	}
	return int(n), src[1+size:], nil
}
