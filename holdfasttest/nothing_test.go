package holdfasttest

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

// The checker tells nil from empty wherever Kafka does: in the bytes of a letter, in what tells outputs apart, and in
// what a recorder's file says of a fold.
func TestNilAndEmptyAreTwo(t *testing.T) {
	t.Parallel()
	all := [][]byte{nil, {}, []byte("x")}
	for i, a := range all {
		for j, b := range all {
			if sameBytes(a, b) != (i == j) {
				t.Errorf("I4: %#v and %#v are the same: %t", a, b, sameBytes(a, b))
			}
			for what, of := range map[string]func(part []byte) string{
				"key":   func(part []byte) string { return contentOf(part, []byte("v"), nil, 0) },
				"value": func(part []byte) string { return contentOf([]byte("k"), part, nil, 0) },
				"header": func(part []byte) string {
					return contentOf([]byte("k"), []byte("v"), []stream.Header{{Key: "h", Value: part}}, 0)
				},
			} {
				if (of(a) == of(b)) != (i == j) {
					t.Errorf("I4: outputs with the %s %#v and %#v are the same: %t", what, a, b, of(a) == of(b))
				}
			}
		}
	}
	for _, part := range all {
		var file bytes.Buffer
		r := NewRecorder("m", &file)
		r.add(Event{Kind: EventFolded, Partition: stream.Partition{Topic: "in"}, Key: part, Has: true, State: part})
		read, err := ReadMembers(&file)
		if err != nil {
			t.Fatal(err)
		}
		if e := read[0].Events[0]; !reflect.DeepEqual(e.Key, part) || !reflect.DeepEqual(e.State, part) {
			t.Errorf("a fold of the key %#v is read back as one of %#v, with the state %#v", part, e.Key, e.State)
		}
	}
}

// Outputs without a key have no order where they may be sent again: each time they may go to another partition. Those
// of the empty key have one.
func TestOrderOfOutputsWithoutAKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key    []byte
		atomic bool
		want   int
	}{
		"without a key":               {nil, false, 0},
		"the empty key":               {[]byte{}, false, 1},
		"without a key, transactions": {nil, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := &checker{m: Model{atomic: c.atomic}}
			u := &unit{input: stream.Partition{Topic: "in"}}
			want := &outputs{topic: "out", by: map[string][]int{}}
			var all []found
			for n, value := range []string{"second", "first"} {
				m := stream.Message{Topic: "out", Key: c.key, Value: []byte(value)}
				p := promised{unit: u, offset: int64(1 - n), n: 1 - n, message: m}
				content := contentOf(m.Key, m.Value, m.Headers, 0)
				want.by[content], want.promised = append(want.by[content], n), append(want.promised, p)
				all = append(all, found{promised: p, at: stream.Partition{Topic: "out"}, on: int64(n)})
			}
			check.checkOrder(want, all)
			if len(check.found) != c.want {
				t.Errorf("I4: %d violations, want %d: %v", len(check.found), c.want, check.found)
			}
		})
	}
}
