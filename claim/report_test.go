package claim_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/claim"
)

func TestReport(t *testing.T) {
	t.Parallel()
	r := claim.Report{
		Findings: []claim.Finding{
			{What: "brokers", Fact: "a:1"},
			{What: "output topic out", Fact: "1 partitions", Warning: "it is not replicated"},
		},
		Claims: claim.Pipe(2),
	}
	text := r.String()
	for _, part := range []string{"ok    brokers: a:1\n", "warn  output topic out: 1 partitions: it is not replicated\n", "claim topic → topic (pipe): "} {
		if !strings.Contains(text, part) {
			t.Errorf("the report does not say %q:\n%s", part, text)
		}
	}
	r.Findings = append(r.Findings, claim.Finding{What: "group g", Fact: "it is taken", Err: errors.New("it is taken")})
	if text := r.String(); strings.Contains(text, "claim ") || !strings.Contains(text, "FAIL  group g: it is taken\n") {
		t.Errorf("a report of a refused start has claims, or no FAIL:\n%s", text)
	}
}
