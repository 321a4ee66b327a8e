package claim_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/claim"
)

func TestEveryProofHasAWholeClaim(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, name := range claim.Proofs() {
		c, ok := claim.Prove(name)
		if err := c.Validate(); !ok || err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if seen[c.Statement] || strings.Contains(strings.ToLower(c.String()), "exactly") {
			t.Errorf("%s claims what another exercise claims, or a slogan: %s", name, c)
		}
		seen[c.Statement] = true
	}
	if len(seen) != 5 {
		t.Errorf("%d claims, want 5", len(seen))
	}
	if c, ok := claim.Prove("luck"); ok || c != (claim.Claim{}) {
		t.Errorf("a name that is no exercise claims %v", c)
	}
}
