package trial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// Verdict stops the members that run, and returns each place at which what the run has left differs from
// what the input gives. Load must be stopped.
func (f *Field) Verdict() []holdfasttest.Violation {
	f.TB.Helper()
	return holdfasttest.Check(f.History(), f.App.Model())
}

// Verify is Verdict that fails the test with each violation.
func (f *Field) Verify() {
	f.TB.Helper()
	const told = 20
	vs := f.Verdict()
	for _, v := range vs[:min(len(vs), told)] {
		f.TB.Error(v)
	}
	if len(vs) > told {
		f.TB.Errorf("%d violations in all", len(vs))
	}
}

// History stops the members that run, and collects what the run has left: the topics, the offsets, and
// what every process has recorded.
func (f *Field) History() holdfasttest.History {
	f.TB.Helper()
	for _, m := range f.members {
		if m.Running() {
			m.Stop()
		}
	}
	logs, err := f.recorded()
	if err != nil {
		f.TB.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.TB.Context(), f.Patience)
	defer cancel()
	h, err := holdfasttest.Collect(ctx, f.App.Model(), logs...)
	if err != nil {
		f.TB.Fatal(err)
	}
	h.Unfinished = f.Unfinished
	return h
}

// recorded reads what every process has recorded. One that was killed early has left nothing.
func (f *Field) recorded() (logs []holdfasttest.Member, err error) {
	for _, m := range f.members {
		for _, l := range m.lives {
			read, err := readRecorded(l.log)
			if err != nil {
				return nil, fmt.Errorf("the log of %s: %w", l.name, err)
			}
			for _, log := range read {
				log.Killed = l.killed
				logs = append(logs, log)
			}
		}
	}
	return logs, nil
}

func readRecorded(path string) ([]holdfasttest.Member, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return holdfasttest.ReadMembers(file)
}
