package snapshot

import (
	"bytes"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

// FuzzDecode gives the decoder whole records, with a header of our name, none, or two. What it accepts is
// exactly what Encode makes of it, and what it refuses is an error with the record's place.
func FuzzDecode(f *testing.F) {
	for _, rec := range goldens {
		m, err := Encode(rec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m.Key, m.Value, m.Value == nil, m.Headers[0].Value, uint8(1))
	}
	f.Add([]byte("k"), []byte("v"), false, []byte{99, 0, 0, 0, 0, 0, 0}, uint8(1))                                             // another version
	f.Add([]byte("k"), []byte("v"), false, []byte{1, 0, 1}, uint8(1))                                                          // cut short
	f.Add([]byte("k"), []byte("v"), false, []byte{1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, uint8(1))             // 2^64-1 inputs
	f.Add([]byte("k"), []byte("v"), false, []byte{1, 0, 0, 0, 0, 255, 255, 3, 255, 255, 3}, uint8(1))                          // 65535 timers of 65535 bytes
	f.Add([]byte("k"), []byte("v"), false, []byte{1, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 127, 0, 0, 0, 0}, uint8(1)) // the last offset there is
	f.Add([]byte("\x00progress"), []byte("v"), false, []byte{1, 0, 0, 0, 0, 0, 0}, uint8(1))                                   // a reserved key
	f.Add([]byte("k"), []byte("v"), false, []byte{1, 0, 0, 0, 0, 0, 0}, uint8(2))
	f.Add([]byte("k"), []byte("v"), false, []byte(nil), uint8(0))
	f.Fuzz(func(t *testing.T, key, value []byte, null bool, header []byte, headers uint8) {
		r := stream.Record{Topic: "t", Partition: 3, Offset: 7, Key: key, Value: value}
		if null {
			r.Value = nil
		} else if value == nil {
			r.Value = []byte{}
		}
		for range headers % 3 {
			r.Headers = append(r.Headers, stream.Header{Key: "other"}, stream.Header{Key: HeaderKey, Value: header})
		}
		rec, err := Decode(r)
		if err != nil {
			var where *stream.Error
			if !errors.Is(err, stream.ErrCorruptSnapshot) || !errors.As(err, &where) || where.Topic != "t" || where.Partition != 3 || where.Offset != 7 || !bytes.Equal(where.Key, key) {
				t.Errorf("error %v", err)
			}
			return
		}
		m, err := Encode(rec)
		if err != nil || !bytes.Equal(m.Key, r.Key) || !bytes.Equal(m.Value, r.Value) || (m.Value == nil) != (r.Value == nil) || !bytes.Equal(m.Headers[0].Value, header) {
			t.Errorf("%+v is read as %+v, which is written as %+v, %v", r, rec, m, err)
		}
	})
}
