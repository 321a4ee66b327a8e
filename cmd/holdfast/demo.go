package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
)

// demoFlags are those of holdfast demo.
type demoFlags struct {
	plain    bool
	sabotage string
	schedule string
	seed     uint64
	keep     string
	events   int
	pace     int
}

const (
	demoEvents    = 20000
	demoEventsMin = 2000
	demoPace      = 1000 // a second
)

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Kill and stall processes in mid-transaction, and check every key afterwards",
		Long: `Run a flow in two member processes, on an embedded broker or with --brokers on
your own cluster. One process is killed in mid-transaction, one is stopped past
its session and woken. Then a reader that shares no code with the library
recomputes every key from the input.

It exits with 0 only if no event was lost, none was folded twice, and the broker
refused at least one stale write.

With --plain the flow runs without the fence, under faults that damage it then:
the demo exits with 0 only if it showed the damage. With --sabotage one rule of
the library is switched off, under faults that this rule is for: the demo has to
fail, since one that cannot fail shows nothing.

--json prints events, keys, takeovers, refused, lost, repeated, seed and ok. "ok"
says whether the state was right and, but for --plain and --sabotage, a stale
write was refused; the exit code says whether the run went as it has to. With
--plain, damage is "ok":false and exit 0; with --sabotage, "ok":false and exit 1.
"refused" counts what stopped, killed or expelled processes were refused.

With --brokers the members reach the cluster through proxies on the loopback, which let
in only who knows a token that each run draws: no other account of the machine gets
through them to what the flags authenticate for.

The rules of --sabotage:
` + ruleList(),
		Example: `  holdfast demo
  holdfast demo --json --seed 42
  holdfast demo --brokers broker1:9092,broker2:9092 --command-config client.properties
  holdfast demo --sabotage applied-skip`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("seed") {
				f.seed = 1 + rand.Uint64N(1e6)
			}
			return a.runDemo(c, f)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.plain, "plain", false, "run without the fence and show what it costs")
	flags.StringVar(&f.sabotage, "sabotage", "", "switch off the `rule` of this name; the demo has to fail")
	flags.Uint64Var(&f.seed, "seed", 0, "make the input of this seed (default: a random one, which is printed)")
	flags.StringVar(&f.keep, "keep", "", "keep the embedded broker's data in this `directory`")
	flags.IntVar(&f.events, "events", demoEvents, "make at least this many events")
	flags.StringVar(&f.schedule, "schedule", "", "run the schedule of a rule with the rule in force")
	if err := c.RegisterFlagCompletionFunc("sabotage", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return ruleNames(), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // the flag is defined above
	}
	flags.IntVar(&f.pace, "pace", demoPace, "make so many events a second")
	for _, name := range []string{"schedule", "pace"} {
		if err := flags.MarkHidden(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return c
}

func ruleNames() (names []string) {
	for _, s := range demo.Schedules() {
		names = append(names, s.Name)
	}
	return names
}

func ruleList() string {
	const margin = 21
	var b strings.Builder
	for _, s := range demo.Schedules() {
		text := s.Rule
		if s.Number != "" {
			text += " (" + s.Number + ")"
		}
		b.WriteString("\n" + indent(fmt.Sprintf("  %-*s", margin-2, s.Name)+text, margin, textColumns))
	}
	return b.String()
}

// options turns flags into a run.
func (f demoFlags) options() (demo.Options, error) {
	o := demo.Options{Seed: f.seed, Events: f.events, Pace: f.pace, Keep: f.keep, Schedule: demo.Main()}
	chosen := 0
	for _, on := range []bool{f.plain, f.sabotage != "", f.schedule != ""} {
		if on {
			chosen++
		}
	}
	if chosen > 1 {
		names := "--plain and --sabotage exclude each other"
		if f.schedule != "" {
			names = "--schedule excludes --plain and --sabotage"
		}
		return o, usage("choose one", "%s", names)
	}
	if f.events < demoEventsMin {
		return o, usage(fmt.Sprintf("--events %d", demoEventsMin), "--events %d: too few for the faults to fall among them", f.events)
	}
	name := f.sabotage + f.schedule
	switch {
	case f.plain:
		o.Schedule = demo.Plain()
	case name != "":
		s, err := demo.Find(name)
		if err != nil {
			return o, usage("holdfast demo --help", "%w", err)
		}
		o.Schedule = s
	}
	if f.sabotage != "" {
		o.Without = o.Schedule.Without
	}
	return o, nil
}

func (a *app) runDemo(c *cobra.Command, f demoFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	if a.connection.given() {
		if f.keep != "" {
			return usage("leave one out", "--keep is for the embedded broker, --brokers for another one")
		}
		k, err := a.connection.reach(c.Context())
		if err != nil {
			return err
		}
		o.Kafka = &k
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which the members run as well: %w", err)
	}
	o.Member = func(brokers []string) []string {
		flags := connection{timeout: a.connection.timeout}
		if o.Kafka != nil {
			flags = a.connection
		}
		flags.brokers = brokers // every advertised address, each of which has a tap
		command := append([]string{self, memberName}, flags.arguments()...)
		return append(command, strings.Split(strings.Repeat("-v ", a.verbose), " ")[:a.verbose]...)
	}
	o.Logger = a.logger()
	if a.verbose > 0 {
		o.Log = a.stderr
	}
	display := a.demoDisplay(o)
	o.Display = display
	display.start(f)
	result, details, err := demo.Run(c.Context(), o)
	display.stop()
	if err != nil {
		return err
	}
	if a.json {
		err = json.NewEncoder(a.stdout).Encode(result)
	} else {
		err = a.printVerdict(f, result, details)
	}
	if err != nil {
		return err
	}
	return f.judge(result)
}

// judge turns the verdict into the exit code.
func (f demoFlags) judge(result demo.Result) error {
	damaged := result.Lost > 0 || result.Repeated > 0
	switch {
	case f.plain && damaged:
		return nil
	case f.plain:
		return &failure{code: exitFailed, err: fmt.Errorf("the damage that a flow without the fence can take was not shown"),
			try: "holdfast demo --plain, with another seed"}
	case result.OK:
		return nil
	case damaged:
		return &failure{code: exitFailed, err: fmt.Errorf("%d events lost, %d repeated", result.Lost, result.Repeated)}
	case result.Refused == 0:
		return &failure{code: exitFailed, err: fmt.Errorf("the broker refused no stale write, so that nothing was shown")}
	}
	return &failure{code: exitFailed, err: fmt.Errorf("states hold the right events in the wrong order, or a wrong sum")}
}
