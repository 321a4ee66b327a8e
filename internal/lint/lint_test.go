package lint

import (
	"os"
	"testing"
)

// TestRepository runs every rule over the repository.
func TestRepository(t *testing.T) {
	t.Parallel()
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Go) < 20 {
		t.Fatalf("only %d Go files were found", len(tree.Go))
	}
	for _, r := range Rules() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			for _, f := range r.Check(tree) {
				t.Error(f)
			}
		})
	}
}
