package member_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

// copied is a flow of the group with the same snapshot topic, and another input.
func (p *place) copied() holdfast.Config[int] {
	c := p.config()
	c.Inputs = []string{"orders"}
	return c
}

// orders makes another input, with two records.
func (p *place) orders() {
	p.t.Helper()
	p.create("orders", nil)
	for range 2 {
		p.must(p.cl.ProduceSync(p.t.Context(), &kgo.Record{Topic: "orders", Key: []byte("k"), Value: []byte("1")}).FirstErr())
	}
}

// refusedAsAnothers checks that Check and Run refuse the flow by name, alike, and lead nowhere near Rebuild.
func (p *place) refusedAsAnothers(c holdfast.Config[int]) {
	p.t.Helper()
	f, err := holdfast.New(c)
	p.must(err)
	report, checked := f.Check(p.t.Context())
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	ran := f.Run(ctx)
	var says [2]*stream.Error
	for n, err := range []error{checked, ran} {
		if !errors.Is(err, stream.ErrInputChanged) || !errors.As(err, &says[n]) {
			p.t.Fatalf("I2: progress of another input: Check, Run [%d] say %v, want %v", n, err, stream.ErrInputChanged)
		}
	}
	if says[0].Err.Error() != says[1].Err.Error() || says[0].Hint != says[1].Hint {
		p.t.Errorf("I7: Check says\n%v\nand Run\n%v", checked, ran)
	}
	if text := ran.Error(); strings.Contains(text, "Rebuild") || !strings.Contains(text, "a group of its own") || !strings.Contains(text, "has the progress of "+input+"/0") {
		p.t.Errorf("I7: the way out is not named: %v", ran)
	}
	if text := report.String(); strings.Contains(text, "agree with") || strings.Contains(text, "expired") || !strings.Contains(text, "fix: no start policy goes on here") {
		p.t.Errorf("I7: the report says something else:\n%s", text)
	}
}

// R31: a copied configuration, with its group and its default snapshot topic, reads another input. The states there are
// the first flow's, and no start policy drops them.
func TestCopiedFlowKeepsOffTheStates(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*holdfast.Config[int]){
		"stop":          func(*holdfast.Config[int]) {},
		"rebuild":       func(c *holdfast.Config[int]) { c.Start.Disagreement = holdfast.Rebuild },
		"adopt empty":   func(c *holdfast.Config[int]) { c.Start.Disagreement = holdfast.AdoptEmpty },
		"resume":        func(c *holdfast.Config[int]) { c.Start.Disagreement = holdfast.ResumeAtProgress },
		"other version": func(c *holdfast.Config[int]) { c.FoldVersion, c.Start.Disagreement = "2", holdfast.Rebuild },
		"other codec": func(c *holdfast.Config[int]) {
			c.Codec, c.Start.Disagreement = codec.Codec[int](tenfold{}), holdfast.Rebuild
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 3)
			p.must(until(p, p.config(), 3))
			p.orders()
			c := p.copied()
			change(&c)
			p.refusedAsAnothers(c)
			p.wantStored(map[string]string{"k": "3"})
			p.produce("k", 1)
			p.must(until(p, p.config(), 4)) // the first one goes on
			p.wantStored(map[string]string{"k": "4"})
		})
	}
}

// R31: the same beside the first flow, which runs. It is fenced once at most, and goes on.
func TestCopiedFlowBesideTheFirst(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	p.orders()
	three, four := make(chan struct{}), make(chan struct{})
	var at3, at4 sync.Once
	c := p.config()
	c.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
		if e.Next >= 3 {
			at3.Do(func() { close(three) })
		}
		if e.Next >= 4 {
			at4.Do(func() { close(four) })
		}
	}}}
	first, err := holdfast.New(c)
	p.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	wait := func(what chan struct{}) {
		t.Helper()
		select {
		case <-what:
		case err := <-ended:
			ended <- err
			t.Fatalf("I7: the first flow has ended: %v", err)
		}
	}
	wait(three)
	copied := p.copied()
	copied.Start.Disagreement = holdfast.Rebuild
	p.refusedAsAnothers(copied)
	p.produce("k", 1)
	wait(four)
	p.wantStored(map[string]string{"k": "4"})
}
