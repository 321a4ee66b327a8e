// Package codec turns states into bytes and back. JSON, Bytes and String are ready to use; Versioned
// lets the format change while old snapshots stay readable. Formats that need other modules, such as
// Protobuf and Avro, are outside the root module.
package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Codec turns a state into the bytes of a snapshot and back. A flow calls it from several goroutines
// at once, one a partition, so that it must be safe for concurrent use: all codecs of this package
// are.
//
// What Decode returns for the bytes that Append wrote must be equal to the state that was appended,
// in every later version of the program: the bytes outlive the process.
type Codec[S any] interface {
	// Append appends the encoded s to dst and returns the extended slice. It must be deterministic:
	// equal states give equal bytes, in every process, because a commit that is sent again has to
	// be the same commit. On an error dst is returned as it was.
	Append(dst []byte, s S) ([]byte, error)
	// Decode returns the state in src. It must neither change src nor keep any part of it: the
	// bytes are used again for the next record.
	Decode(src []byte) (S, error)
}

// JSON returns a codec that writes S as encoding/json does, without the escaping that is meant for
// HTML, so that people can read a snapshot topic with any tool. Map keys are sorted, fields keep the
// order of the struct, so it is deterministic unless a MarshalJSON method of S is not. Decode ignores
// fields that S does not have. Unexported fields are lost: a state that has them needs methods of its
// own or another codec. Its errors say what is wrong and where, and have no value of the state: encoding/json's own
// error is behind errors.As.
func JSON[S any]() Codec[S] { return jsonCodec[S]{} }

type jsonCodec[S any] struct{}

func (jsonCodec[S]) Append(dst []byte, s S) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return dst, fmt.Errorf("encode %T as JSON: %w", s, withoutValues(err))
	}
	// Encode ends each value with a newline, which is not part of it.
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func (jsonCodec[S]) Decode(src []byte) (S, error) {
	var s S
	if err := json.Unmarshal(src, &s); err != nil {
		var zero S
		return zero, fmt.Errorf("decode JSON of %d bytes as %T: %w", len(src), zero, withoutValues(err))
	}
	return s, nil
}

// Bytes returns the codec of a state that is bytes already. Decode copies. A nil state and an empty
// one are the same bytes, and decode as an empty one that is not nil.
func Bytes() Codec[[]byte] { return bytesCodec{} }

type bytesCodec struct{}

func (bytesCodec) Append(dst []byte, s []byte) ([]byte, error) { return append(dst, s...), nil }
func (bytesCodec) Decode(src []byte) ([]byte, error)           { return append([]byte{}, src...), nil }

// String returns the codec of a state that is a string. Any bytes are allowed in it.
func String() Codec[string] { return stringCodec{} }

type stringCodec struct{}

func (stringCodec) Append(dst []byte, s string) ([]byte, error) { return append(dst, s...), nil }
func (stringCodec) Decode(src []byte) (string, error)           { return string(src), nil }
