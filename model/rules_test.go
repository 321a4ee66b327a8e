package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The toggles stand for rules that the documents know and functions that the code has.
func TestTogglesAreInStepWithTheCode(t *testing.T) {
	fields := reflect.TypeFor[Rules]()
	if fields.NumField() != len(Toggles) {
		t.Fatalf("%d toggles in Rules, %d in the table", fields.NumField(), len(Toggles))
	}
	doc, err := os.ReadFile("../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, toggle := range Toggles {
		if got := fields.Field(i).Name; got != toggle.Name {
			t.Errorf("toggle %d of the table is %s, of Rules %s", i, toggle.Name, got)
		}
		if toggle.Rule == "" {
			continue
		}
		if !strings.Contains(string(doc), "| "+toggle.Rule+" |") {
			t.Errorf("%s: docs/ARCHITECTURE.md has no rule %s", toggle.Name, toggle.Rule)
		}
		file, function, _ := strings.Cut(toggle.Code, ":")
		if !declares(t, filepath.Join("..", file), function) {
			t.Errorf("%s: %s has no function %s", toggle.Name, file, function)
		}
	}
}

func declares(t *testing.T, file, function string) bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Error(err)
		return false
	}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Name.Name == function {
			return true
		}
	}
	return false
}
