package main

import (
	"slices"
	"strings"
	"testing"
)

const document = "# Title\n\n" +
	"| Source test | Ours | Package |\n|---|---|---|\n" +
	"| a | `TestA`, `TestB/some_case` | `fence` |\n" +
	"| b | `TestC` by way of `other` | `fence` `internal/engine` |\n" +
	"\n| Ours (nightly) | Package |\n|---|---|\n| `TestLong` | `fence` |\n" +
	"\n| Other | Table |\n|---|---|\n| `TestNot` | `fence` |\n"

func TestParse(t *testing.T) {
	t.Parallel()
	wants, left, err := parse(document, false)
	if err != nil || left != 1 || len(wants) != 3 {
		t.Fatalf("%+v, %d left, %v", wants, left, err)
	}
	if !slices.Equal(namesIn(wants, "fence"), []string{"TestA", "TestB", "TestC"}) || !slices.Equal(packagesOf(wants), []string{"fence", "internal/engine"}) {
		t.Errorf("names %v, packages %v", namesIn(wants, "fence"), packagesOf(wants))
	}
	if wants, left, err := parse(document, true); err != nil || left != 0 || len(wants) != 4 {
		t.Errorf("nightly: %+v, %d left, %v", wants, left, err)
	}
	for _, bad := range []string{"no table", "| Ours | Package |\n|---|---|\n| nothing | `fence` |\n", "| Ours | Package |\n|---|---|\n| `TestA` |\n"} {
		if wants, _, err := parse(bad, true); err == nil {
			t.Errorf("%q gives %+v, want an error", bad, wants)
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	r := results{}
	var out strings.Builder
	err := r.read(strings.NewReader(`{"Action":"output","Test":"TestA","Output":"it broke\n"}
{"Action":"fail","Test":"TestA"}
{"Action":"output","Test":"TestB","Output":"quiet\n"}
{"Action":"pass","Test":"TestB"}
{"Action":"skip","Test":"TestC/case"}
{"Action":"pass","Test":"TestC"}
`), &out, "fence")
	if err != nil {
		t.Fatal(err)
	}
	for name, verdict := range map[string]string{"TestA": "fail", "TestB": "pass", "TestC/case": "skip", "TestC": "skip", "TestD": "missing"} {
		if got := r.verdict(want{name, []string{"other", "fence"}}); got != verdict {
			t.Errorf("%s: %s, want %s", name, got, verdict)
		}
	}
	if !strings.Contains(out.String(), "it broke") || strings.Contains(out.String(), "quiet") {
		t.Errorf("printed %q, want what the failed test says", out.String())
	}
}
