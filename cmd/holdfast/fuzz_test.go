package main

import (
	"strings"
	"testing"
)

// FuzzParsePlace: what is read as a place is one, and names itself.
func FuzzParsePlace(f *testing.F) {
	for _, s := range []string{"0:17", "0:", ":", "-1:1", "1:-1", "2147483648:0", "0:9223372036854775808", "+0:1", "0:1:2", "٣:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePlace(text)
		if err != nil {
			return
		}
		if p.Partition < 0 || p.Offset < 0 {
			t.Errorf("%q is read as %+v", text, p)
		}
		if again, err := parsePlace(p.String()); err != nil || again != p {
			t.Errorf("%q is read as %v, which is read as %v, %v", text, p, again, err)
		}
	})
}

// FuzzParseTopic: a topic of the embedded broker has a name and partitions, or is refused.
func FuzzParseTopic(f *testing.F) {
	for _, s := range []string{"payments:4", "ledger-snapshots:4:compact", ":1", "a:0", "a:2147483648", "a:1:delete", "a:1:compact:x", "a:+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		topic, err := parseTopic(text)
		if err == nil && (topic.Name == "" || topic.Partitions < 1 || !strings.HasPrefix(text, topic.Name+":")) {
			t.Errorf("%q is read as %+v", text, topic)
		}
	})
}
