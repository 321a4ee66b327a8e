package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/prove"
	"github.com/holdfast-go/holdfast/internal/visible"
	"github.com/holdfast-go/holdfast/kafka"
)

// rivalName is the hidden subcommand that is the second process of the fencing exercise.
const rivalName = "prove-rival"

// proveFlags are those of holdfast prove.
type proveFlags struct {
	claims        []string
	prefix        string
	replicas      int
	minISR        int
	out           string
	list, cleanup bool
}

func (a *app) proveCommand() *cobra.Command {
	var f proveFlags
	c := &cobra.Command{
		Use:   "prove",
		Short: "Show on your own cluster what is claimed, with evidence",
		Long: `Run exercises on your own cluster. Each makes a fault, watches what the cluster
and the client do, and comes to a verdict:

  proved     the claim held, and the evidence shows it
  refuted    the claim did not hold here
  not shown  the fault could not be made, or showed nothing: nothing is claimed

Topics, groups and transactional ids are made for the run, with names that begin
with --prefix, and topics and groups are removed at the end, also after Ctrl-C.
Nothing else is touched, and a name that is there already is refused. No request
deletes a transactional id: the brokers forget it, after 7 days by default. That
of the exercise fencing is "holdfast-", a number, and such a name: it is the one
that Holdfast's writer makes for the group.

It exits with 0 if no claim was refuted and at least one was proved, which leaves
those out that were not shown: the last line and --json count them. It exits with
1 if one was refuted or nothing was shown, and with 3 if the cluster cannot be
reached, or does not permit an exercise or the clean-up.`,
		Example: `  holdfast prove --brokers broker1:9092
  holdfast prove --command-config client.properties --claims fencing,takeover
  holdfast prove --brokers broker1:9092 --out evidence --json
  holdfast prove --brokers broker1:9092 --cleanup`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("min-isr") {
				f.minISR = max(1, min(f.minISR, f.replicas-1))
			}
			return a.runProve(c, f)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.claims, "claims", claim.Proofs(), "run these `exercises`, separated by commas")
	flags.StringVar(&f.prefix, "prefix", "holdfast-prove-", "what the `names` of everything that is made begin with")
	flags.IntVar(&f.replicas, "replication", 3, "replicas of each topic; all brokers, if there are fewer")
	flags.IntVar(&f.minISR, "min-isr", 2, "min.insync.replicas of each topic; lower by itself with fewer than 3 replicas")
	flags.StringVar(&f.out, "out", "", "write the report into this `directory` too, as text and as JSON")
	flags.BoolVar(&f.list, "list", false, "list the exercises and their claims, and connect to nothing")
	flags.BoolVar(&f.cleanup, "cleanup", false, "remove what earlier runs under the prefix have left, and run nothing")
	if err := c.RegisterFlagCompletionFunc("claims", cobra.FixedCompletions(claim.Proofs(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined above
	}
	return c
}

// proveRivalCommand is the second process. Its orders come on standard input.
func (a *app) proveRivalCommand() *cobra.Command {
	return &cobra.Command{
		Use:    rivalName,
		Short:  "Run the second process of holdfast prove, which starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			k, err := a.connection.config(c.Context())
			if err != nil {
				return err
			}
			return prove.RunRival(c.Context(), k, a.stdin, a.stdout)
		},
	}
}

func (a *app) runProve(c *cobra.Command, f proveFlags) error {
	if f.list && f.cleanup {
		return usage("choose one", "--list and --cleanup exclude each other")
	}
	if f.list {
		return a.listProofs()
	}
	k, err := a.connection.reach(c.Context())
	if err != nil {
		return err
	}
	o, err := a.proveOptions(f, k)
	if err != nil {
		return err
	}
	if f.cleanup {
		cleaned, err := prove.Clean(c.Context(), o)
		return errors.Join(a.printCleaned(cleaned), err)
	}
	report, ran := prove.Run(c.Context(), o)
	if report.Run == "" { // nothing was begun
		return ran
	}
	err = a.printReport(a.stdout, report)
	if f.out != "" {
		err = errors.Join(err, a.keepReport(f.out, report))
	}
	return judgeReport(report, errors.Join(ran, err))
}

func (a *app) proveOptions(f proveFlags, k kafka.Config) (prove.Options, error) {
	self, err := os.Executable()
	if err != nil {
		return prove.Options{}, fmt.Errorf("find this program, which the second process runs as well: %w", err)
	}
	return prove.Options{
		Kafka: k, Prefix: f.prefix, Replicas: f.replicas, MinISR: f.minISR, Claims: f.claims,
		Rival: append([]string{self, rivalName}, a.connection.arguments()...),
		Progress: func(line string) {
			fmt.Fprintln(a.stderr, indent(line, len(line)-len(strings.TrimLeft(line, " ")), textColumns))
		},
		Logger: a.logger(),
	}, nil
}

// judgeReport turns the verdicts into the exit code. A refuted claim is told before what else went
// wrong: it is what the command is there to find.
func judgeReport(r prove.Report, ran error) error {
	switch {
	case r.Refuted > 0:
		return errors.Join(&failure{code: exitFailed, err: fmt.Errorf("%d of %d claims refuted", r.Refuted, len(r.Exercises))}, ran)
	case ran != nil:
		return ran
	case r.Proved == 0:
		return &failure{code: exitFailed, err: fmt.Errorf("nothing was shown"), try: "holdfast prove -v, which logs what happens"}
	}
	return nil
}

// keepReport writes the report into dir, in files of the run's own name.
func (a *app) keepReport(dir string, r prove.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usage("name a directory that can be written", "--out: %w", err)
	}
	write := func(kind string, print func(io.Writer) error) error {
		file, err := os.OpenFile(filepath.Join(dir, "prove-"+r.Run+kind), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		return errors.Join(print(harmless(file)), file.Close())
	}
	return errors.Join(
		write(".txt", func(to io.Writer) error { return writeReport(to, a.name(), false, r) }),
		write(".json", func(to io.Writer) error { return json.NewEncoder(to).Encode(r) }))
}

func (a *app) printReport(to io.Writer, r prove.Report) error {
	if a.json {
		return json.NewEncoder(to).Encode(r)
	}
	return writeReport(to, a.name(), a.color(to), r)
}

// writeReport prints each exercise with what was done, its claim and evidence, then a table.
func writeReport(to io.Writer, program string, colors bool, r prove.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Run %s: brokers %d, transaction.version %d, replication %d, min.insync.replicas %d\n",
		r.Run, r.Brokers, r.TransactionVersion, r.Replicas, r.MinISR)
	for _, weaker := range r.Weaker {
		fmt.Fprintln(&b, indent("WEAKER HERE: "+weaker+".", 2, textColumns))
	}
	for _, e := range r.Exercises {
		fmt.Fprintf(&b, "\n%s: %s\n", e.Name, verdictWord(e.Verdict, colors))
		if e.Summary != "" {
			fmt.Fprintln(&b, indent("  Done:   "+e.Summary, 10, textColumns))
		}
		if e.Why != "" {
			fmt.Fprintln(&b, indent("  Why:    "+strings.TrimRight(e.Why, ".")+".", 10, textColumns))
		}
		c := claim.Claim(e.Claim)
		c.Weaker = "" // it is the same for all, and said above
		fmt.Fprintln(&b, indent("  Claim:  "+proofText(c), 10, textColumns))
		for i, line := range e.Evidence {
			head := "          - "
			if i == 0 {
				head = "  Seen:   - "
			}
			fmt.Fprintln(&b, indent(head+line, 12, textColumns))
		}
	}
	fmt.Fprintf(&b, "\n%-12s %-10s %8s\n", "Exercise", "Verdict", "Seconds")
	for _, e := range r.Exercises {
		fmt.Fprintf(&b, "%-12s %-10s %8.1f\n", e.Name, strings.ToUpper(string(e.Verdict)), float64(e.TookMs)/1000)
	}
	fmt.Fprintf(&b, "\n%s\n", removed(program, r))
	fmt.Fprintf(&b, "\n%d proved, %d refuted, %d not shown", r.Proved, r.Refuted, r.NotShown)
	if r.NotShown > 0 {
		fmt.Fprint(&b, ": NOTHING IS CLAIMED about what was not shown")
	}
	fmt.Fprintln(&b, ".")
	_, err := io.WriteString(to, b.String())
	return err
}

// proofText is a claim without its component, which is this command for all of them.
func proofText(c claim.Claim) string {
	return strings.Replace(c.String(), " ("+claim.ComponentProve+")", "", 1)
}

func verdictWord(v prove.Verdict, colors bool) string {
	word := strings.ToUpper(string(v))
	switch {
	case !colors:
		return word
	case v == prove.Proved:
		return green + word + plain
	}
	return red + word + plain
}

// removed says what is gone and what is left.
func removed(program string, r prove.Report) string {
	text := fmt.Sprintf("Removed: topics %d, groups %d.", len(r.Cleaned.Topics), len(r.Cleaned.Groups))
	if n := len(r.TransactionalIDs); n > 0 {
		text += fmt.Sprintf(" Transactional ids used: %d; the brokers forget them by themselves.", n)
	}
	text = wrap(text, textColumns)
	for _, left := range r.Cleaned.Left {
		text += "\n" + indent("LEFT: "+strings.TrimRight(left, ".")+".", 6, textColumns)
	}
	if len(r.Cleaned.Left) > 0 {
		text += "\nTo remove what is left, with the same connection and prefix:\n  " + program + " prove --cleanup"
	}
	return text
}

func (a *app) printCleaned(c prove.Cleaned) error {
	if a.json {
		return json.NewEncoder(a.stdout).Encode(c)
	}
	for _, t := range c.Topics {
		fmt.Fprintln(a.stdout, "removed topic", visible.Text(t))
	}
	for _, g := range c.Groups {
		fmt.Fprintln(a.stdout, "removed group", visible.Text(g))
	}
	for _, l := range c.Left {
		fmt.Fprintln(a.stdout, "left", visible.Text(l))
	}
	if len(c.Topics)+len(c.Groups)+len(c.Left) == 0 {
		fmt.Fprintln(a.stdout, "nothing was left behind under the prefix")
	}
	return nil
}

// listProofs prints the exercises.
func (a *app) listProofs() error {
	type listed struct {
		Name  string      `json:"name"`
		Claim prove.Claim `json:"claim"`
	}
	var all []listed
	for _, name := range claim.Proofs() {
		c, _ := claim.Prove(name)
		all = append(all, listed{name, prove.Claim(c)})
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(all)
	}
	for _, l := range all {
		fmt.Fprintln(a.stdout, indent(fmt.Sprintf("%-12s%s", l.Name, proofText(claim.Claim(l.Claim))), 12, textColumns))
	}
	return nil
}
