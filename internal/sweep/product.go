package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
)

// product are the directories whose code users import or run, and everything below them unless it is in tests.
var product = []string{
	".", "claim", "codec", "devbroker", "dlq", "fence", "holdfasttest", "kafka", "pipe", "snapshot", "stream",
	"internal/engine", "internal/intake", "internal/job", "internal/member", "internal/pace", "internal/preflight",
	"internal/rule", "internal/visible", "internal/wire",
}

// InProduct reports whether a file is part of the product: code of one of its packages, or what the module requires.
func InProduct(file string) bool { return codeOf(product, file) }

func codeOf(dirs []string, file string) bool {
	if file == "go.mod" || file == "go.sum" {
		return true
	}
	return strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") && slices.Contains(dirs, path.Dir(file))
}

// Product names the product of a commit: two commits with the same name differ in tests and documents alone. tree is
// what "git ls-tree -r" says of the commit.
func Product(tree string) string { return Part(tree, product) }

// Part names the code of some directories, and what the module requires, as Product names all of it.
func Part(tree string, dirs []string) string {
	h := sha256.New()
	for line := range strings.Lines(tree) {
		if _, file, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok && codeOf(dirs, file) {
			h.Write([]byte(line))
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

const module = "github.com/holdfast-go/holdfast"

// Imports are the directories of the packages that the package of a directory and its tests are built from. list is
// what "go list -deps -test" says of it.
func Imports(list string) (dirs []string) {
	for line := range strings.Lines(list) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ") // "a/b [a/b.test]": as its tests see it
		if dir, ours := strings.CutPrefix(name, module); ours && (dir == "" || dir[0] == '/') {
			dirs = append(dirs, path.Join(".", dir))
		}
	}
	return dirs
}
