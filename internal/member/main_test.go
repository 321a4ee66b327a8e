package member_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	// The tests wait for the embedded broker's sessions and for second looks most of the time. -parallel on the command line
	// still wins.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
