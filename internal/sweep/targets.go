package sweep

import (
	"cmp"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Target is a fuzz target.
type Target struct {
	Dir  string // of its package
	Name string
}

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz[A-Za-z0-9_]*)\(f \*testing\.F\)`)

// Targets finds the fuzz targets of every module in a tree.
func Targets(tree fs.FS) (out []Target, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || len(d.Name()) > 1 && d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, found := range fuzzTarget.FindAllSubmatch(text, -1) {
			out = append(out, Target{Dir: path.Dir(name), Name: string(found[1])})
		}
		return nil
	})
	slices.SortFunc(out, func(a, b Target) int { return cmp.Or(cmp.Compare(a.Dir, b.Dir), cmp.Compare(a.Name, b.Name)) })
	return out, err
}
