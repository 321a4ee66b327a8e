package tail

import (
	"math"
	"testing"
)

// FuzzParsePlace: a place of the command line comes to an offset within the log, or is refused with the
// log's ends.
func FuzzParsePlace(f *testing.F) {
	for _, s := range []string{"start", "end", "0", "-1", "-0", "-9223372036854775808", "9223372036854775807", "+7", "7 "} {
		f.Add(s, int64(3), int64(10), int64(8))
	}
	f.Fuzz(func(t *testing.T, text string, start, high, stable int64) {
		if start < 0 || start > stable || stable > high || high == math.MaxInt64 {
			t.Skip("no log is like that")
		}
		p, err := ParsePlace(text)
		if err != nil {
			return
		}
		for _, end := range []int64{stable, high} {
			offset, err := ends{start, high, stable}.resolve(p, end)
			if err == nil && (offset < start || offset > high) {
				t.Errorf("%q is offset %d of a log from %d to %d", text, offset, start, high)
			}
			if err != nil && !p.Absolute() {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
