package member_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// Two groups on one snapshot topic are not fenced from each other: the second one must not begin,
// whatever its start policy says, and the first one goes on.
func TestSnapshotsOfAnotherGroupStop(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]holdfast.Disagreement{
		"stop": holdfast.StopAndAsk, "resume": holdfast.ResumeAtProgress, "adopt": holdfast.AdoptEmpty, "rebuild": holdfast.Rebuild,
	} {
		for guarantee, name := range map[holdfast.Guarantee]string{holdfast.FencedState: name, holdfast.Unfenced: name + ", unfenced"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				p.produce("k", 3)
				first := p.config()
				first.Guarantee = guarantee
				p.must(until(p, first, 3))
				other := first
				other.Group, other.Snapshots.Topic, other.Start.Disagreement = "other", states, policy
				err := until(p, other, 3)
				if !errors.Is(err, stream.ErrOtherGroup) {
					t.Fatalf("the other group: %v, want %v", err, stream.ErrOtherGroup)
				}
				for _, part := range []string{`group "flow"`, "member ", "choose another Snapshots.Topic"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("error %q does not say %q", err, part)
					}
				}
				p.produce("k", 1)
				p.must(until(p, first, 4))
				p.wantStored(map[string]string{"k": "4"})
			})
		}
	}
}

// A new FoldVersion and a codec that cannot read the old states come together: the version is what
// was meant, and is what the error says.
func TestFoldVersionComesBeforeTheCodec(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	p.must(until(p, p.config(), 3))
	c := p.config()
	c.FoldVersion, c.Codec = "2", tenfold{}
	if err := until(p, c, 3); !errors.Is(err, stream.ErrFoldVersion) {
		t.Errorf("%v, want %v", err, stream.ErrFoldVersion)
	}
	c.FoldVersion = ""
	err := until(p, c, 3)
	if !errors.Is(err, stream.ErrCorruptSnapshot) {
		t.Fatalf("%v, want %v", err, stream.ErrCorruptSnapshot)
	}
	for _, once := range []string{"restore", "key of", "Next: "} {
		if n := strings.Count(err.Error(), once); n != 1 {
			t.Errorf("%q is %d times in %q", once, n, fmt.Sprint(err))
		}
	}
}
