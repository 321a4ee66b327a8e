package planted

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/rule"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A bug whose place in the sources has changed is stale, and is mended with the change and not when the
// bugs are planted next.
func TestEveryBugHasItsPlace(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, b := range All() {
		if seen[b.Name] {
			t.Errorf("two bugs are named %s", b.Name)
		}
		seen[b.Name] = true
		if b.Off == "" || b.Invariant == "" || len(b.Rules) == 0 || len(b.Edits)+len(b.Switches) == 0 {
			t.Errorf("%s is not complete", b.Name)
		}
		patched, err := b.Patch(os.DirFS(root))
		if err != nil {
			t.Error(err)
		}
		for file, text := range patched {
			if text == read(t, file) {
				t.Errorf("%s changes nothing in %s", b.Name, file)
			}
		}
	}
}

func TestEveryBugHasItsTest(t *testing.T) {
	t.Parallel()
	for _, b := range All() {
		function, _, _ := strings.Cut(b.Test.Name, "/")
		if strings.HasPrefix(function, "TestKafka") {
			t.Errorf("%s: %s needs Kafka, and the bugs are planted without", b.Name, function)
		}
		files, err := filepath.Glob(filepath.Join(root, b.Test.Package, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+function+"(")
		})
		if !found {
			t.Errorf("%s: package %s has no %s", b.Name, b.Test.Package, function)
		}
	}
}

// Every rule that is built, and every known mistake, is missing once.
func TestEveryRuleIsMissingOnce(t *testing.T) {
	t.Parallel()
	rules, mistakes := map[string]bool{}, map[string]bool{}
	for _, b := range All() {
		for _, r := range b.Rules {
			rules[r] = true
		}
		if b.Mistake != "" && !slices.Contains(Mistakes, b.Mistake) {
			t.Errorf("%s: %q is none of the known mistakes", b.Name, b.Mistake)
		}
		mistakes[b.Mistake] = true
	}
	built := regexp.MustCompile(`(?m)^\| (R\d+) \|`).FindAllStringSubmatch(read(t, "docs/ARCHITECTURE.md"), -1)
	if len(built) == 0 {
		t.Fatal("docs/ARCHITECTURE.md has no rules")
	}
	for _, m := range built {
		if !rules[m[1]] {
			t.Errorf("no bug switches %s off", m[1])
		}
		delete(rules, m[1])
	}
	delete(rules, "-")
	for r := range rules {
		t.Errorf("docs/ARCHITECTURE.md has no rule %s", r)
	}
	for _, m := range Mistakes {
		if !mistakes[m] {
			t.Errorf("no bug makes the mistake %q", m)
		}
	}
}

// A rule that can be switched off by name is switched off by a bug.
func TestEverySwitchIsUsed(t *testing.T) {
	t.Parallel()
	all := Table()
	for _, m := range regexp.MustCompile(`Name = "([a-z-]+)"`).FindAllStringSubmatch(read(t, switchFile), -1) {
		if !strings.Contains(all, "`"+m[1]+"`") && !slices.Contains(byEdit, m[1]) {
			t.Errorf("no bug switches %s off", m[1])
		}
	}
}

// byEdit are the switches that the engine has as fields of its own, and the second witness, whose table
// is decided beside the switch: a bug edits the condition itself.
var byEdit = []string{"holds", "applied-skip", "two-write-delete", "second-witness"}

func TestTableIsThatOfTheDocument(t *testing.T) {
	t.Parallel()
	if text := read(t, "docs/reliability.md"); !strings.Contains(text, Table()) {
		t.Error("docs/reliability.md has another table: go run ./internal/planted/run -list prints it")
	}
}

// What goes off with a switch is said, and nothing else is.
func TestDocumentNamesWhatGoesWithASwitch(t *testing.T) {
	t.Parallel()
	_, after, _ := strings.Cut(read(t, "docs/reliability.md"), "what nine other switches prevent (")
	list, _, ok := strings.Cut(after, ")")
	if !ok {
		t.Fatal("docs/reliability.md does not say which switches none-between goes with")
	}
	var with []string
	for _, m := range regexp.MustCompile(`Name = "([a-z-]+)"`).FindAllStringSubmatch(read(t, switchFile), -1) {
		if len(rule.Off(rule.Name(m[1]))) > 1 {
			with = append(with, "`"+m[1]+"`")
		}
	}
	named := strings.Split(list, ", ")
	slices.Sort(with)
	slices.Sort(named)
	if !slices.Equal(named, with) || len(with) != 9 {
		t.Errorf("docs/reliability.md names %v, and it goes with %v", named, with)
	}
}

func TestPatchRefusesAStaleBug(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]string{"gone": "no such text", "twice": "rule"} {
		b := Bug{Name: name, Edits: []Edit{{switchFile, old, "x"}}}
		if _, err := b.Patch(os.DirFS(root)); err == nil || !strings.Contains(err.Error(), "stale") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
