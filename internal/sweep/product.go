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
	"internal/engine", "internal/job", "internal/member", "internal/pace", "internal/preflight", "internal/rule", "internal/wire",
}

// InProduct reports whether a file is part of the product: code of one of its packages, or what the module requires.
func InProduct(file string) bool {
	if file == "go.mod" || file == "go.sum" {
		return true
	}
	return strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") && slices.Contains(product, path.Dir(file))
}

// Product names the product of a commit: two commits with the same name differ in tests and documents alone. tree is
// what "git ls-tree -r" says of the commit.
func Product(tree string) string {
	h := sha256.New()
	for line := range strings.Lines(tree) {
		if _, file, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok && InProduct(file) {
			h.Write([]byte(line))
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
