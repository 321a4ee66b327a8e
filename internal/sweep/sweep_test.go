package sweep

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestBookIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	b := Book{
		"soak/pipe":    {Piece: "soak/pipe", Passed: true, Product: "abc", Commit: "def", Began: began, Took: 90 * time.Second, Says: "0 lost"},
		"matrix/3.9.1": {Piece: "matrix/3.9.1", Product: "abc", Commit: "def", Began: began, Took: time.Minute, Says: "-"},
	}
	got, err := Parse(b.String())
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != b.String() || len(got) != 2 || got["soak/pipe"] != b["soak/pipe"] || got["matrix/3.9.1"] != b["matrix/3.9.1"] {
		t.Errorf("read %+v, written %+v", got, b)
	}
	if _, err := Parse("| a | passed | b | c | yesterday | 1.0 | d |\n"); err == nil {
		t.Error("a row without a date is taken")
	}
}

// What failed, what passed on another product, and what was never run is left.
func TestLeft(t *testing.T) {
	t.Parallel()
	b := Book{
		"a": {Piece: "a", Passed: true, Product: "now"}, "b": {Piece: "b", Product: "now"}, "c": {Piece: "c", Passed: true, Product: "before"},
	}
	var names []string
	for _, p := range b.Left([]Piece{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}, func(Piece) string { return "now" }) {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"b", "c", "d"}) {
		t.Errorf("left %v, want b, c and d", names)
	}
}

func TestProductIsTheCodeAlone(t *testing.T) {
	t.Parallel()
	const tree = "100644 blob 1\tfence/writer.go\n100644 blob 2\tfence/writer_test.go\n100644 blob 3\tREADME.md\n100644 blob 4\tinternal/trial/app.go\n"
	name := Product(tree)
	for _, same := range []string{"blob 2", "blob 3", "blob 4"} {
		if Product(strings.Replace(tree, same, "blob 9", 1)) != name {
			t.Errorf("%s changes the product", same)
		}
	}
	if Product(strings.Replace(tree, "blob 1", "blob 9", 1)) == name {
		t.Error("the product's code does not change its name")
	}
}

// Every directory of the product is there: one that was renamed would let its code change unseen.
func TestProductIsThere(t *testing.T) {
	t.Parallel()
	for _, dir := range product {
		if _, err := os.Stat(path.Join("../..", dir)); err != nil {
			t.Error(err)
		}
	}
}

// A piece about one package is left again when that package or what it imports has changed, and only then.
func TestPart(t *testing.T) {
	t.Parallel()
	dirs := Imports("errors\n" + module + "/codec\n" + module + "/codec [" + module + "/codec.test]\n" + module + "x\n")
	if !slices.Equal(dirs, []string{"codec", "codec"}) {
		t.Fatalf("%v, want codec twice", dirs)
	}
	const tree = "100644 blob 1\tcodec/a.go\n100644 blob 2\tfence/a.go\n"
	name := Part(tree, dirs)
	if Part(strings.Replace(tree, "blob 2", "blob 9", 1), dirs) != name {
		t.Error("a package that is not imported changes the part")
	}
	if Part(strings.Replace(tree, "blob 1", "blob 9", 1), dirs) == name {
		t.Error("a package that is imported does not change the part")
	}
}

// What the module's public packages import from it is part of the product.
func TestProductIsWhole(t *testing.T) {
	t.Parallel()
	args := []string{"list", "-C", "../..", "-deps"}
	for _, dir := range product {
		args = append(args, "./"+dir)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range Imports(string(out)) {
		if !InProduct(path.Join(dir, "x.go")) {
			t.Errorf("%s is imported by the product, and no part of it", dir)
		}
	}
}

func TestTargetsAndPieces(t *testing.T) {
	t.Parallel()
	found, err := Targets(fstest.MapFS{
		"a/x_test.go":    {Data: []byte("package a\n\nfunc FuzzTwo(f *testing.F) {}\n\nfunc FuzzOne(f *testing.F) {}\n")},
		"a/x.go":         {Data: []byte("func FuzzNot(f *testing.F) {}\n")},
		".git/y_test.go": {Data: []byte("func FuzzNot(f *testing.F) {}\n")},
	})
	if err != nil || !slices.Equal(found, []Target{{"a", "FuzzOne"}, {"a", "FuzzTwo"}}) {
		t.Fatalf("%v, %v", found, err)
	}
	names := map[string]bool{}
	for _, p := range Pieces(found) {
		if names[p.Name] || strings.Contains(p.Name, " ") || len(p.Args) == 0 {
			t.Errorf("piece %+v", p)
		}
		names[p.Name] = true
	}
	for _, want := range []string{"crash-steps/4.4.0/eager", "seeds/9001-10000", "fuzz/a/FuzzTwo", "soak/pipe", "limits/3.9.1"} {
		if !names[want] {
			t.Errorf("no piece %s", want)
		}
	}
}
