package fence

import (
	"encoding/hex"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

// The header is a stored format, as the progress record's value is.
func TestLogStartGolden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		start  int64
		golden string
	}{{0, "0000000000000000"}, {1, "0000000000000001"}, {1<<40 + 7, "0000010000000007"}} {
		hs := StartHeaders(c.start)
		if len(hs) != 1 || hs[0].Key != "holdfast.log-start" || hex.EncodeToString(hs[0].Value) != c.golden {
			t.Errorf("%d is encoded as %v", c.start, hs)
		}
		raw, _ := hex.DecodeString(c.golden)
		got, ok := ProgressLogStart(stream.Record{Headers: []stream.Header{{Key: "other"}, {Key: "holdfast.log-start", Value: raw}}})
		if got != c.start || !ok {
			t.Errorf("%s is decoded as %d, %t", c.golden, got, ok)
		}
	}
	for name, r := range map[string]stream.Record{
		"an older record": {}, "too short": {Headers: []stream.Header{{Key: startHeader, Value: []byte("short")}}},
		"negative": {Headers: StartHeaders(-1)},
	} {
		if start, ok := ProgressLogStart(r); ok {
			t.Errorf("%s says %d", name, start)
		}
	}
}
