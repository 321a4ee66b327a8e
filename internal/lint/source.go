package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/claim"
)

// The limits of sizes, in lines. Each is the first number that is too many.
const (
	functionLines = 70
	fileLines     = 500
)

func checkSizes(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Go {
		if f.Generated {
			continue
		}
		if f.Lines >= fileLines {
			out = append(out, Finding{f.Path, 0, fmt.Sprintf("file has %d lines, %d are too many", f.Lines, fileLines)})
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := t.Fset.Position(fn.End()).Line - t.line(fn) + 1; n >= functionLines {
				out = append(out, Finding{f.Path, t.line(fn), fmt.Sprintf("function %s has %d lines, %d are too many", functionName(fn), n, functionLines)})
			}
		}
	}
	return out
}

// sleepers are the files that may sleep, each with the reason.
var sleepers = map[string]string{}

func checkSleeps(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.sources() {
		if _, ok := sleepers[f.Path]; ok {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					out = append(out, Finding{f.Path, t.line(s), "time.Sleep cannot be cut short: wait on a timer and the context"})
				}
			}
			return true
		})
	}
	return out
}

// plainMethods are methods whose meaning is the interface's and needs no comment of its own.
var plainMethods = []string{"Error", "String", "Unwrap", "Is", "GoString", "LogValue", "Len", "Less", "Swap", "Push", "Pop"}

func checkDocComments(t *Tree) []Finding {
	var out []Finding
	documented := map[string]bool{}
	var dirs []string
	for _, f := range t.sources() {
		if f.AST.Doc != nil {
			documented[f.Dir()] = true
		}
		if !slices.Contains(dirs, f.Dir()) {
			dirs = append(dirs, f.Dir())
		}
		for _, d := range f.AST.Decls {
			for _, id := range undocumented(d) {
				out = append(out, Finding{f.Path, t.line(id), id.Name + " is exported and has no doc comment"})
			}
		}
	}
	for _, dir := range dirs {
		if !documented[dir] {
			out = append(out, Finding{dir, 0, "package has no package comment"})
		}
	}
	return out
}

func undocumented(d ast.Decl) []*ast.Ident {
	switch d := d.(type) {
	case *ast.FuncDecl:
		r := receiver(d)
		hidden := d.Recv != nil && (!token.IsExported(r) || slices.Contains(plainMethods, d.Name.Name))
		if d.Name.IsExported() && d.Doc == nil && !hidden {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil
		}
		var out []*ast.Ident
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && s.Comment == nil {
					out = append(out, s.Name)
				}
			case *ast.ValueSpec:
				if s.Doc == nil && s.Comment == nil {
					out = append(out, slices.DeleteFunc(slices.Clone(s.Names), func(n *ast.Ident) bool { return !n.IsExported() })...)
				}
			}
		}
		return out
	}
	return nil
}

// forbidden are words that do not belong into a published text: notes of unfinished work, paths of one
// machine, and numbers of a tracker that the reader does not have. They are written in two parts so
// that this file does not break its own rule.
var forbidden = []*regexp.Regexp{
	regexp.MustCompile(`(^|[^\w.])(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`),
	regexp.MustCompile(`(^|[^\w.~])/(wo` + `rk|tm` + `p|ro` + `ot|ho` + `me)/`),
	regexp.MustCompile(`(?i)\bissue ` + `#?\d`),
	regexp.MustCompile(`registry\.` + `npmjs|proxy\.` + `golang|repo1?\.` + `maven`),
}

func checkWords(t *Tree) []Finding {
	var out []Finding
	for name, text := range t.Texts {
		for i, line := range strings.Split(text, "\n") {
			for _, bad := range forbidden {
				if m := bad.FindString(line); m != "" {
					out = append(out, Finding{name, i + 1, fmt.Sprintf("%q does not belong into a published file", strings.TrimSpace(m))})
				}
			}
		}
	}
	return out
}

// quoted is the slogan as a word that is talked about, not claimed.
var quoted = regexp.MustCompile(`(?i)["“]exactly[- ]once["”]`)

// bareSlogan applies the rule of package claim to a text.
func bareSlogan(text string) bool {
	whole := claim.Claim{Hop: "h", Component: "c", Crash: "c", Boundary: "b"}
	whole.Statement = "s " + quoted.ReplaceAllString(strings.Join(strings.Fields(text), " "), "")
	return whole.Validate() != nil
}

func checkSlogan(t *Tree) []Finding {
	var out []Finding
	const text = "the slogan stands without its boundary"
	for _, f := range t.Go {
		for _, group := range f.AST.Comments {
			if bareSlogan(group.Text()) {
				out = append(out, Finding{f.Path, t.line(group), text})
			}
		}
	}
	for name, content := range t.Texts {
		if path.Ext(name) != ".md" {
			continue
		}
		line := 1
		for paragraph := range strings.SplitSeq(content, "\n\n") {
			if bareSlogan(paragraph) {
				out = append(out, Finding{name, line, text})
			}
			line += strings.Count(paragraph, "\n") + 2
		}
	}
	return out
}
