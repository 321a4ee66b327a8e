package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what is known about the binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	FranzGo  string `json:"franz_go"`
}

func readBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, FranzGo: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/twmb/franz-go" {
			b.FranzGo = d.Version
		}
	}
	return b
}

// String is what people are told.
func (b build) String() string {
	revision := ""
	if b.Revision != "" {
		revision = fmt.Sprintf(" (%.12s", b.Revision)
		if b.Modified {
			revision += ", modified"
		}
		revision += ")"
	}
	return fmt.Sprintf("holdfast %s%s\n%s %s, franz-go %s\n", b.Version, revision, b.Go, b.Platform, b.FranzGo)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the command, of Go and of the Kafka client",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if a.json {
				return json.NewEncoder(a.stdout).Encode(b)
			}
			_, err := fmt.Fprint(a.stdout, b)
			return err
		},
	}
}
