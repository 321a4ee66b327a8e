package snapshot_test

import (
	"fmt"

	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// A snapshot topic can be read by any consumer: the value is the state as the user's codec wrote it,
// and the header says up to which input offset it has been folded.
func ExampleDecode() {
	m, err := snapshot.Encode(snapshot.Record{
		Key:    []byte("account-1"),
		Value:  []byte(`{"cents":1200}`),
		Header: snapshot.Header{Applied: []int64{41}, Steps: 7},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := stream.Record{Topic: "ledger-state", Offset: 12, Key: m.Key, Value: m.Value, Headers: m.Headers}
	if snapshot.Reserved(r.Key) {
		return // one of Holdfast's own records, no key's state
	}
	rec, err := snapshot.Decode(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s is %s %s after input offset %d\n", rec.Key, rec.Kind, rec.Value, rec.Applied[0])
	// Output: account-1 is state {"cents":1200} after input offset 41
}
