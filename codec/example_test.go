package codec_test

import (
	"bytes"
	"fmt"

	"github.com/holdfast-go/holdfast/codec"
)

func ExampleJSON() {
	type balance struct {
		Cents int64             `json:"cents"`
		Tags  map[string]string `json:"tags"`
	}
	c := codec.JSON[balance]()
	out, err := c.Append(nil, balance{Cents: 250, Tags: map[string]string{"b": "2", "a": "1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(out))
	// Output: {"cents":250,"tags":{"a":"1","b":"2"}}
}

// The balance was kept in euros, as {"euros":3}, and is kept in cents since.
func ExampleVersioned() {
	type balance struct {
		Cents int64 `json:"cents"`
	}
	c := codec.Versioned(codec.JSON[balance](), func(old []byte) ([]byte, error) {
		number := bytes.TrimSuffix(bytes.TrimPrefix(old, []byte(`{"euros":`)), []byte("}"))
		return fmt.Appendf(nil, `{"cents":%s00}`, number), nil
	}).AcceptUnversioned()

	old, err := c.Decode([]byte(`{"euros":3}`))
	fmt.Println(old.Cents, err)
	_, err = codec.Versioned(codec.JSON[balance]()).Decode([]byte("\xf7\x02{}"))
	fmt.Println(err)
	// Output:
	// 300 <nil>
	// state was written by a newer version: 2, and this program knows versions 1 to 1
}

func ExampleBytes() {
	c := codec.Bytes()
	out, err := c.Append([]byte("state="), []byte("on"))
	fmt.Printf("%s %v\n", out, err)
	// Output: state=on <nil>
}
