package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// app is what every subcommand shares: the streams and the global flags.
type app struct {
	lookup         func(string) (string, bool) // a variable of the environment
	stdin          io.Reader
	stdout, stderr *visible.Writer // that let no text of a stranger act
	connection     connection
	program        string // how this program was run: "holdfast", a path, or go run
	json           bool
	noColor        bool
	verbose        int
	started        bool // a subcommand's own code ran, so that an error is not one of usage
}

// run runs one command line and returns its exit code. It is main without the process; lookup is
// os.LookupEnv or stands for it.
func run(ctx context.Context, lookup func(string) (string, bool), args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{lookup: lookup, stdin: stdin, program: programName(os.Args[0])}
	a.stdout, a.stderr = harmless(stdout), harmless(stderr)
	root := a.root()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	path := "holdfast"
	if command != nil {
		path = command.CommandPath()
	}
	var f *failure
	if !a.started && !errors.As(err, &f) {
		err = usage(path+" --help", "%w", err)
	}
	if code := exitCode(ctx, err); code != exitInterrupted {
		printError(a.stderr, path, err)
		return code
	}
	printError(a.stderr, path, errInterrupted)
	return exitInterrupted
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Stateful stream processing on Kafka: each partition has one writer",
		Long: `Holdfast folds a Kafka topic into state, with one writer for each partition.

holdfast demo shows on an embedded broker, or on your own cluster, that neither a killed nor
a stalled process damages the state. holdfast prove makes faults on your own cluster and judges
by what it sees whether the claims hold there. holdfast check looks whether a flow or a pipe can run
on a cluster, with a fix for what is wrong. holdfast tail shows a topic's records with what
became of their transactions. holdfast dlq lists and shows dead letters, and sends them back.

Exit codes: 0 all is well, 1 a claim or a finding failed, 2 usage, 3 a cluster cannot be
reached or does not permit it, 4 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return c.Help()
		},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := fromEnvironment(c.Root().PersistentFlags(), a.lookup); err != nil {
				return err
			}
			a.started = true
			a.connection.warn = func(text string) { fmt.Fprintf(a.stderr, "Warning: %s\n", text) }
			if c.Hidden { // the parent has said it
				a.connection.warn = nil
			}
			return nil
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.SortFlags = false
	a.connection.register(flags)
	flags.BoolVar(&a.json, "json", false, "print one JSON object on standard output instead of text")
	flags.BoolVar(&a.noColor, "no-color", false, "print no colours (NO_COLOR does the same)")
	flags.CountVarP(&a.verbose, "verbose", "v", "log to standard error; twice: in detail")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(c.CommandPath()+" --help", "%w", plainFlagError(err))
	})
	root.AddCommand(a.demoCommand(), a.demoMemberCommand(), a.proveCommand(), a.proveRivalCommand(), a.checkCommand(), a.tailCommand(), a.dlqCommand(), a.brokerCommand(), a.versionCommand())
	root.Version = readBuild().Version
	root.SetVersionTemplate(readBuild().String())
	root.InitDefaultCompletionCmd("completion")
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args = knownCommand
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	hideConnection(root)
	return root
}

// connecting are the commands that connect to a cluster.
var connecting = []string{"demo", "prove", "check", "tail", "dlq"}

// hideConnection leaves the connection flags out of the help of commands that connect to nothing.
func hideConnection(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		top := c
		for top.HasParent() && top.Parent() != root {
			top = top.Parent()
		}
		var only connection
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		only.register(flags)
		flags.VisitAll(func(f *pflag.Flag) {
			meant := top == root || slices.Contains(connecting, top.Name()) || top.Name() == "broker" && strings.HasPrefix(f.Name, "sasl-")
			root.PersistentFlags().Lookup(f.Name).Hidden = !meant
		})
		help(c, args)
	})
}

// plainFlagError says what is wrong with a flag's number without naming the function that read it.
func plainFlagError(err error) error {
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) || !errors.As(err, &number) {
		return err
	}
	why := "not a whole number"
	switch {
	case errors.Is(number, strconv.ErrRange):
		why = "out of range"
	case number.Func == "ParseUint":
		why += " from 0 on"
	case number.Func == "ParseBool":
		why = "neither true nor false"
	}
	return fmt.Errorf("--%s %s: %s", invalid.GetFlag().Name, invalid.GetValue(), why)
}

// programName is how the program that was started as path can be started again. What go run builds is
// gone when it ends.
func programName(path string) string {
	if strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/holdfast"
	}
	return path
}

// nearby is how many letters a misspelt command may differ by from the one that is suggested.
const nearby = 2

// knownCommand refuses a name that no subcommand has, and suggests the nearest one.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = nearby
	try := c.CommandPath() + " --help"
	if names := c.SuggestionsFor(args[0]); len(names) > 0 {
		try = c.CommandPath() + " " + names[0]
	}
	return usage(try, "there is no command %q", args[0])
}

// environmentName is the variable that stands for a global flag.
func environmentName(flag string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that the command line did not.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		value, ok := lookup(environmentName(f.Name))
		if !ok || f.Changed || f.Name == "help" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, usage("unset "+environmentName(f.Name), "%s: %w", environmentName(f.Name), err))
		}
	})
	return errors.Join(errs...)
}

// logger writes to standard error as -v asks.
func (a *app) logger() *slog.Logger {
	level := slog.LevelInfo
	switch a.verbose {
	case 0:
		return slog.New(slog.DiscardHandler)
	case 1:
	default:
		level = slog.LevelDebug
	}
	return slog.New(visible.NewHandler(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})))
}

// harmless stands before w, so that whatever is printed, a terminal obeys none of it but our colours.
func harmless(w io.Writer) *visible.Writer {
	return visible.NewWriter(w, green, red, tail.Yellow, plain)
}

// terminal reports whether w is one.
func terminal(w io.Writer) bool {
	if v, ok := w.(*visible.Writer); ok {
		w = v.Unwrap()
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// color reports whether w may be given colours.
func (a *app) color(w io.Writer) bool {
	return !a.noColor && os.Getenv("NO_COLOR") == "" && terminal(w)
}
