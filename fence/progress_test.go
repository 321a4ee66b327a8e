package fence

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files")

func sampleProgress() Progress {
	return Progress{
		Inputs: []InputProgress{
			{Topic: "payments", TopicID: [16]byte{1, 2, 15: 16}, Next: 1 << 40, LeaderEpoch: 7},
			{Topic: "refunds", Next: 0, LeaderEpoch: -1},
		},
		Partitions: 12, Group: "ledger", MemberID: "member-1", Generation: 3, Incarnation: 2,
		Nonce: 0xfeedfacecafebeef, Sequence: 41, FoldVersion: "2026-11", At: time.UnixMilli(1_800_000_000_123).UTC(),
	}
}

func TestProgressGolden(t *testing.T) {
	t.Parallel()
	const file = "testdata/progress-v1.hex"
	key, value, err := sampleProgress().Encode()
	if err != nil || string(key) != "\x00progress" {
		t.Fatalf("key %q, %v", key, err)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(hex.EncodeToString(value)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	golden, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(value, golden) {
		t.Errorf("encoded\n%x\nwant\n%x", value, golden)
	}
	p, err := DecodeProgress(golden)
	if err != nil || !reflect.DeepEqual(p, sampleProgress()) {
		t.Errorf("decoded %+v, %v", p, err)
	}
}

func TestProgressDecodeIsStrict(t *testing.T) {
	t.Parallel()
	_, value, err := sampleProgress().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for n := range value {
		if _, err := DecodeProgress(value[:n]); !errors.Is(err, errProgress) {
			t.Fatalf("the first %d bytes gave %v", n, err)
		}
	}
	if _, err := DecodeProgress(append(value, 0)); !errors.Is(err, errProgress) {
		t.Errorf("a spare byte gave %v", err)
	}
	value[0]++
	if _, err := DecodeProgress(value); !errors.Is(err, errProgress) {
		t.Errorf("another version gave %v", err)
	}
	long := sampleProgress()
	long.FoldVersion = strings.Repeat("x", 1<<16)
	if _, _, err := long.Encode(); err == nil {
		t.Error("a name that does not fit was encoded")
	}
}

func FuzzDecodeProgress(f *testing.F) {
	_, value, _ := sampleProgress().Encode()
	f.Add(value)
	f.Add([]byte{1})
	f.Add([]byte{1, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodeProgress(b)
		if err != nil {
			if !errors.Is(err, errProgress) {
				t.Errorf("error %v", err)
			}
			return
		}
		_, again, err := p.Encode()
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x decoded and encoded gives %x, %v", b, again, err)
		}
	})
}

func TestWitnessInMetadata(t *testing.T) {
	t.Parallel()
	w := witness{^uint64(0), ^uint64(0)}
	if m := w.metadata(""); len(m) > 64 || parseWitness(m) != w {
		t.Errorf("%q of %d bytes gives %v", m, len(m), parseWitness(m))
	}
	for _, m := range []string{"", "hf1:", "hf1:1", "hf1:x:1", "hf1:1:", "hf2:1:1", "note by an operator"} {
		if got := parseWitness(m); got != (witness{}) {
			t.Errorf("%q gives %v", m, got)
		}
	}
}

func FuzzTransactionalID(f *testing.F) {
	f.Add("g", "t", int32(1), "g", "t", int32(1))
	f.Add("g-1", "t", int32(1), "g", "1-t", int32(1))
	f.Add("a", "b-1", int32(2), "a", "b", int32(12))
	f.Add("1-g", "t", int32(0), "g", "t", int32(0))
	f.Fuzz(func(t *testing.T, g1, t1 string, p1 int32, g2, t2 string, p2 int32) {
		if p1 < 0 || p2 < 0 {
			t.Skip("no partition")
		}
		same := g1 == g2 && t1 == t2 && p1 == p2
		if id1, id2 := TransactionalID(g1, t1, p1), TransactionalID(g2, t2, p2); (id1 == id2) != same {
			t.Errorf("I3: (%q %q %d) gives %q, (%q %q %d) gives %q", g1, t1, p1, id1, g2, t2, p2, id2)
		}
	})
}

// What states have applied past the committed offset is in the progress record, and only that.
func TestProgressTellsWhatIsApplied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		applied Applied
		ok      bool
	}{
		{Applied{}, false}, {Applied{10, 3}, false}, {Applied{11, 3}, true}, {Applied{1 << 40, -1}, true},
	} {
		got, ok := ProgressApplied(stream.Record{Headers: c.applied.Headers(10)})
		if ok != c.ok || ok && got != c.applied {
			t.Errorf("%+v at offset 10: %+v, %t", c.applied, got, ok)
		}
	}
	if _, ok := ProgressApplied(stream.Record{Headers: []stream.Header{{Key: appliedHeader, Value: []byte("short")}}}); ok {
		t.Error("a header that cannot be read counts")
	}
}

// FuzzProgress writes a progress record of any content, which comes back as it was. Names that do not fit
// are refused, and not cut.
func FuzzProgress(f *testing.F) {
	f.Add("payments", int64(1), int32(-1), "ledger", "member-1", int32(3), uint32(0), uint64(1), uint64(2), "2026-11", int64(1_800_000_000_123), uint16(2))
	f.Add("", int64(-1), int32(0), "", "", int32(-1), ^uint32(0), ^uint64(0), uint64(0), strings.Repeat("x", 1<<16), int64(-1)<<63, uint16(0))
	f.Fuzz(func(t *testing.T, topic string, next int64, epoch int32, group, member string, generation int32, incarnation uint32,
		nonce, sequence uint64, version string, ms int64, inputs uint16) {
		p := Progress{
			Partitions: epoch, Group: group, MemberID: member, Generation: generation, Incarnation: incarnation,
			Nonce: nonce, Sequence: sequence, FoldVersion: version, At: time.UnixMilli(ms).UTC(),
		}
		for i := range inputs % 4 {
			p.Inputs = append(p.Inputs, InputProgress{Topic: topic, TopicID: [16]byte{byte(i)}, Next: next, LeaderEpoch: epoch})
		}
		long := max(len(group), len(member), len(version)) > 1<<16-1 || len(p.Inputs) > 0 && len(topic) > 1<<16-1
		key, value, err := p.Encode()
		if (err != nil) != long || !IsProgressKey(key) {
			t.Fatalf("key %q, %v", key, err)
		}
		if err != nil {
			return
		}
		if back, err := DecodeProgress(value); err != nil || !reflect.DeepEqual(back, p) {
			t.Errorf("%+v came back as %+v, %v", p, back, err)
		}
	})
}
