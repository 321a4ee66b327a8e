package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/planted"
)

// demoPackage is run with each bug. It bounds itself.
const demoPackage = "./internal/planted/demo"

// testLimit bounds one named test. It is above the patience of the tests themselves.
const testLimit = 5 * time.Minute

// noSymbols makes linking, which is most of the time of a bug, shorter.
const noSymbols = "-ldflags=-s -w"

// garden is where bugs are planted: a directory of overlays, and the healthy runs of the named tests.
type garden struct {
	dir string

	mu      sync.Mutex
	healthy map[planted.Test]*health
}

// health is the run of a test without a bug, which happens once.
type health struct {
	once sync.Once
	left string // why it did not pass
}

func newGarden(dir string) *garden {
	return &garden{dir: dir, healthy: map[planted.Test]*health{}}
}

// plantAll gives the results in the order of the bugs, of which it plants so many side by side.
func (g *garden) plantAll(ctx context.Context, bugs []planted.Bug, side int) func(func(result) bool) {
	return func(yield func(result) bool) {
		ctx, cancel := context.WithCancel(ctx)
		results := make([]chan result, len(bugs))
		permits := make(chan struct{}, max(side, 1))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for i := range bugs {
			results[i] = make(chan result, 1)
		}
		wg.Go(func() {
			for i, b := range bugs {
				select {
				case permits <- struct{}{}:
				case <-ctx.Done():
					return
				}
				wg.Go(func() {
					defer func() { <-permits }()
					began := time.Now()
					left := g.plant(ctx, b)
					results[i] <- result{b, left, time.Since(began)}
				})
			}
		})
		for i := range bugs {
			select {
			case r := <-results[i]:
				if ctx.Err() != nil || !yield(r) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// plant returns why a bug does not count as killed; "" if it does.
func (g *garden) plant(ctx context.Context, b planted.Bug) string {
	overlay, err := g.overlay(b)
	if err != nil {
		return err.Error()
	}
	demo := filepath.Join(g.dir, b.Name+".demo")
	if text, err := command(ctx, nil, "build", noSymbols, "-overlay", overlay, "-o", demo, demoPackage); err != nil {
		return "it does not compile: " + first(strings.Split(text, "\n"))
	}
	defer os.Remove(demo)
	if text, err := exec.CommandContext(ctx, demo).CombinedOutput(); err != nil {
		return "it shows without any fault: " + lastLine(string(text))
	}
	r, err := test(ctx, b.Test, "-overlay", overlay)
	if err != nil {
		return err.Error()
	}
	if left := r.noticed(b.Test.Name, b.Invariant); left != "" {
		return left
	}
	return g.health(ctx, b.Test)
}

// overlay writes the files that b changes, and the list of them that the go command reads.
func (g *garden) overlay(b planted.Bug) (string, error) {
	patched, err := b.Patch(os.DirFS("."))
	if err != nil {
		return "", err
	}
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range patched {
		changed := filepath.Join(g.dir, b.Name+"."+strings.ReplaceAll(file, "/", "."))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(g.dir, b.Name+".json")
	return path, os.WriteFile(path, list, 0o600)
}

// health returns why a test does not pass without a bug; "" if it does.
func (g *garden) health(ctx context.Context, t planted.Test) string {
	g.mu.Lock()
	h := g.healthy[t]
	if h == nil {
		h = &health{}
		g.healthy[t] = h
	}
	g.mu.Unlock()
	h.once.Do(func() {
		r, err := test(ctx, t)
		switch {
		case err != nil:
			h.left = err.Error()
		case r.outcome[t.Name] != "pass" || r.died != "":
			h.left = fmt.Sprintf("without the bug %s does not pass either: %s", t.Name, r.said(t.Name))
		}
	})
	return h.left
}

// test runs one test. That it fails is no error.
func test(ctx context.Context, t planted.Test, flags ...string) (report, error) {
	args := append([]string{"test", "-json", "-count=1", "-vet=off", noSymbols, "-timeout", testLimit.String(), "-tags", t.Tags, "-run", t.Pattern()}, flags...)
	text, err := command(ctx, []string{"HOLDFAST_NIGHTLY="}, append(args, "./"+t.Package)...)
	r, readErr := read(strings.NewReader(text))
	if readErr != nil {
		return r, readErr
	}
	if len(r.outcome) == 0 && err != nil && !r.broken && r.died == "" {
		return r, fmt.Errorf("go test ./%s: %w: %s", t.Package, err, first(r.build))
	}
	return r, nil
}

func command(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
