package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// operationsFile has the table of log lines that an alert may match.
const operationsFile = "docs/operations.md"

// elsewhere are the trees that do not run in a user's process, or are the user's own.
var elsewhere = []string{
	"bench", "cmd", "devbroker", "examples", "holdfasttest",
	"internal/acceptance", "internal/kafkatest", "internal/lint", "internal/wiretap",
}

// logsForUsers reports whether what a package logs is for those who run it.
func logsForUsers(dir string) bool {
	return !slices.ContainsFunc(elsewhere, func(tree string) bool {
		return dir == tree || strings.HasPrefix(dir, tree+"/")
	})
}

// logLine is one call of a logger.
type logLine struct {
	file    string
	line    int
	level   string
	message string
	words   []string // string literals of the function around it: its fields are among them
}

// logLines returns the calls of loggers, and the fields that loggers carry by With.
func logLines(t *Tree) (lines []logLine, carried []string) {
	for _, f := range t.sources() {
		if !logsForUsers(f.Dir()) {
			continue
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			var words []string
			first := len(lines)
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if s, ok := constant(n); ok {
						words = append(words, s)
					}
				case *ast.CallExpr:
					method, message := logCall(n)
					switch method {
					case "":
					case "With":
						carried = append(carried, message)
						carried = append(carried, literals(n.Args)...)
					default:
						lines = append(lines, logLine{f.Path, t.line(n), strings.ToUpper(method), message, nil})
					}
				}
				return true
			})
			for i := range lines[first:] {
				lines[first+i].words = words
			}
		}
	}
	return lines, carried
}

// logCall returns the method and the message of a call of a logger, "" and "" of any other.
func logCall(c *ast.CallExpr) (method, message string) {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) == 0 || !slices.Contains([]string{"Debug", "Info", "Warn", "Error", "With"}, s.Sel.Name) {
		return "", ""
	}
	name := ""
	switch x := s.X.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	if name = strings.ToLower(name); name != "log" && name != "logger" {
		return "", ""
	}
	if message, ok = constant(c.Args[0]); !ok {
		return s.Sel.Name, ""
	}
	return s.Sel.Name, message
}

// constant returns the text of a string literal, or of several that are added up.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, err := strconv.Unquote(e.Value)
			return s, err == nil
		}
	case *ast.BinaryExpr:
		left, okLeft := constant(e.X)
		right, okRight := constant(e.Y)
		return left + right, okLeft && okRight && e.Op == token.ADD
	}
	return "", false
}

func literals(es []ast.Expr) []string {
	var out []string
	for _, e := range es {
		if s, ok := constant(e); ok {
			out = append(out, s)
		}
	}
	return out
}

// told reports whether a documented message is this one: as a whole, or up to its first colon.
func (l logLine) told(message string) bool {
	return l.message == message || strings.HasPrefix(l.message, message+":")
}

// checkLogLines compares the table of log lines with the code, both ways: an alert that matches a
// message which nobody logs any more is silent, and a warning without a row leaves the one who reads
// it alone.
func checkLogLines(t *Tree) []Finding {
	text, ok := t.Texts[operationsFile]
	if !ok {
		return []Finding{{operationsFile, 0, "is missing"}}
	}
	lines, carried := logLines(t)
	var out []Finding
	listed := map[int]bool{} // index in lines
	tabled := 0
	for _, r := range rows(text) {
		message, ok := r.cells["message"]
		if !ok {
			continue
		}
		tabled++
		bad := func(format string, args ...any) {
			out = append(out, Finding{operationsFile, r.line, fmt.Sprintf(format, args...)})
		}
		named := spans(message)
		if len(named) != 1 {
			bad("the row does not name one message")
			continue
		}
		found := false
		for i, l := range lines {
			if !l.told(named[0]) || l.level != r.cells["level"] {
				continue
			}
			found, listed[i] = true, true
			for _, field := range spans(r.cells["fields"]) {
				if !slices.Contains(l.words, field) && !slices.Contains(carried, field) {
					bad("%s:%d does not log a field %s", l.file, l.line, field)
				}
			}
		}
		if !found {
			bad("nothing logs %q at level %s", named[0], r.cells["level"])
		}
	}
	if tabled == 0 {
		out = append(out, Finding{operationsFile, 0, "has no table with the column Message"})
	}
	for i, l := range lines {
		switch {
		case l.message == "":
			out = append(out, Finding{l.file, l.line, "the message of a log line is a constant, so that alerts can match it"})
		case !listed[i] && (l.level == "WARN" || l.level == "ERROR"):
			out = append(out, Finding{l.file, l.line, fmt.Sprintf("%q is not in the table of %s: say there what to do about it", l.message, operationsFile)})
		}
	}
	return out
}
