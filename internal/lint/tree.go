package lint

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is the path of the root module. Directories below it are packages of this path and theirs.
const Module = "github.com/holdfast-go/holdfast"

// Finding is one place where a rule is broken.
type Finding struct {
	File string
	Line int // 0: the file as a whole
	Text string
}

// String returns the finding in the form that editors can jump to.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// Rule is one rule of the repository.
type Rule struct {
	Name  string
	Check func(*Tree) []Finding
}

// Rules returns all rules.
func Rules() []Rule {
	return []Rule{
		{"imports", checkImports},
		{"engine is pure", checkPurity},
		{"root module", checkRootModule},
		{"sizes", checkSizes},
		{"sleeps", checkSleeps},
		{"doc comments", checkDocComments},
		{"words", checkWords},
		{"slogan", checkSlogan},
		{"architecture", checkArchitecture},
		{"acceptance", checkAcceptance},
		{"field cases", checkFieldCases},
		{"log lines", checkLogLines},
		{"names in documents", checkNames},
		{"make targets", checkMakeTargets},
		{"links", checkLinks},
		{"readme", checkReadme},
		{"concepts", checkConcepts},
		{"changelog", checkChangelog},
	}
}

// GoFile is one parsed Go file.
type GoFile struct {
	Path      string
	Test      bool // its name ends with _test.go
	Generated bool
	Lines     int
	AST       *ast.File
}

// Dir returns the directory of the file, "." for the root.
func (f GoFile) Dir() string { return path.Dir(f.Path) }

// Tree is a repository in memory.
type Tree struct {
	Fset  *token.FileSet
	Go    []GoFile
	Texts map[string]string // every text file by path, Go files among them
	Files map[string]bool   // every file by path
}

// textNames are the files without a telling suffix that are text all the same.
var textNames = []string{"Makefile", "run", "go.mod", "go.work", ".gitignore"}

var textSuffixes = []string{".go", ".md", ".yml", ".yaml", ".sh", ".txt", ".xml", ".json", ".toml", ".properties"}

// Load reads the tree below the root of fsys. Hidden directories but .ci and .github are left out, and
// Go files in testdata directories count as text only.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet(), Texts: map[string]string{}, Files: map[string]bool{}}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if strings.HasPrefix(base, ".") && !slices.Contains([]string{".", ".ci", ".github"}, base) {
				return fs.SkipDir
			}
			return nil
		}
		t.Files[name] = true
		if !slices.Contains(textNames, base) && !slices.Contains(textSuffixes, path.Ext(name)) {
			return nil
		}
		return t.add(fsys, name)
	})
	return t, err
}

func (t *Tree) add(fsys fs.FS, name string) error {
	src, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a link that leads nowhere
	}
	if err != nil {
		return err
	}
	t.Texts[name] = string(src)
	if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
		return nil
	}
	file, err := parser.ParseFile(t.Fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.Go = append(t.Go, GoFile{
		Path: name, Test: strings.HasSuffix(name, "_test.go"), Generated: ast.IsGenerated(file),
		Lines: bytes.Count(src, []byte("\n")), AST: file,
	})
	return nil
}

func (t *Tree) line(n ast.Node) int { return t.Fset.Position(n.Pos()).Line }

// sources returns the Go files that are not tests.
func (t *Tree) sources() []GoFile {
	return slices.DeleteFunc(slices.Clone(t.Go), func(f GoFile) bool { return f.Test })
}

// documents returns the paths of all Markdown files, sorted.
func (t *Tree) documents() []string {
	var out []string
	for name := range t.Texts {
		if path.Ext(name) == ".md" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// functions returns the functions that a Go file declares, a method as "Type.Method".
func functions(f GoFile) []string {
	var out []string
	for _, d := range f.AST.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			out = append(out, functionName(fn))
		}
	}
	return out
}

func functionName(fn *ast.FuncDecl) string {
	if r := receiver(fn); r != "" {
		return r + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// receiver returns the name of the type that fn is a method of, "" if it is none.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	expr := fn.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}
