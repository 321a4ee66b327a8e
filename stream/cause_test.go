package stream

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// Every sentinel of errors.go has a name of its own: one without would be "other" in every alert.
func TestEveryConditionHasACause(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			for _, name := range v.Names {
				if strings.HasPrefix(name.Name, "Err") {
					declared++
				}
			}
		}
		return true
	})
	if declared == 0 || declared != len(causes) {
		t.Errorf("errors.go declares %d conditions and %d have a cause", declared, len(causes))
	}
	plain, seen := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`), map[string]bool{}
	for i, name := range Causes() {
		if !plain.MatchString(name) || seen[name] {
			t.Errorf("cause %q is not plain, or is there twice", name)
		}
		seen[name] = true
		if i < len(causes) {
			if got := Cause(NewError("do", fmt.Errorf("why: %w", causes[i].err))); got != name {
				t.Errorf("%v has cause %q, want %q", causes[i].err, got, name)
			}
		}
	}
}

func TestCauseOfSeveralConditions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"none":               {nil, ""},
		"of nobody":          {errors.New("no"), CauseOther},
		"the id decides":     {errors.Join(ErrOwnershipLost, ErrIDTaken), "id-taken"},
		"a fold's own error": {fmt.Errorf("%w: %w", ErrFold, ErrUnreachable), "fold"},
		"why a fold failed":  {fmt.Errorf("%w: %w", ErrFold, ErrNoKey), "no-key"},
		"a flood of folds":   {fmt.Errorf("%w: %w", ErrFlood, ErrFold), "flood"},
	} {
		if got := Cause(tc.err); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
