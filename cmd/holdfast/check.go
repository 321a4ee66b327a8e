package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/visible"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// checkFlags are those of holdfast check.
type checkFlags struct {
	kind, group       string
	inputs, outputs   []string
	keepPartition     []string
	compacted         string // the snapshot topic of a flow, the progress topic of a pipe
	progress          string
	deadLetters       string
	create            bool
	guarantee         string
	protocol          string
	instance          string
	session, rebal    time.Duration
	heartbeat, txn    time.Duration
	commit, revoke    time.Duration
	probe, strictness bool
}

func (a *app) checkCommand() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check",
		Short: "Look whether a flow or a pipe can run on your cluster, with a fix for what is wrong",
		Long: `Look at everything that a flow or a pipe needs of a cluster: versions and features of the
brokers, topics (partitions, cleanup policy, replication, size limits), the group, permissions one
by one, timeouts, and whether keys are where murmur2 puts them. Flow.Check and Pipe.Check do the
same from a program. No live group is joined, and without --probe nothing is written.

Each finding has a level:

  ok       as it has to be
  advice   it works; something is better otherwise, or could not be found out
  warning  it starts, and a claim may not hold for it
  fault    it would not start

and what is not ok has a fix: a command, or a setting.

--probe makes the brokers refuse a stale owner, on which the fenced guarantees rest: a member of
its own, alone in a group GROUP-probe-RANDOM, sends an offset of a generation that does not exist,
under a transactional id of its own, and then, as a control, one of its own generation. Both are
aborted and the group is deleted; the id is forgotten by the brokers after a week. It takes up to
8 s, of which group.initial.rebalance.delay.ms, 3 s by default, is the most.

With --json one object: group, kind, guarantee, ok, level, findings (id, level, what, found, fix),
claims. An id does not change; the words do.

Exit codes: 0 nothing refuses a start (with --strict: no warning either), 1 a fault, 3 the cluster
cannot be reached, is too old, or something is not permitted.`,
		Example: `  holdfast check --brokers localhost:9092 --group ledger --input payments --output balances --probe
  holdfast check --kind pipe --group copy --input a --input b --output c --dead-letters c-dead --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runCheck(c.Context(), f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.group, "group", "", "consumer `group`")
	flags.StringSliceVar(&f.inputs, "input", nil, "input `topics`: one of a flow, one or more of a pipe")
	flags.StringVar(&f.compacted, "snapshots", "", "snapshot `topic` of a flow (default: GROUP-snapshots)")
	flags.StringVar(&f.progress, "progress", "", "progress `topic` of a pipe (default: GROUP-progress)")
	flags.BoolVar(&f.create, "create", false, "a missing snapshot or progress topic is no fault: the program creates it at start (nothing is created here)")
	flags.StringSliceVar(&f.outputs, "output", nil, "output `topics`")
	flags.StringSliceVar(&f.keepPartition, "keep-partition", nil, "output `topics` of a pipe whose records keep the partition number of their input")
	flags.StringVar(&f.deadLetters, "dead-letters", "", "dead-letter `topic`")
	flags.StringVar(&f.kind, "kind", claim.ComponentFlow, "flow or pipe")
	flags.StringVar(&f.guarantee, "guarantee", claim.FencedState, "of a flow: FencedState, FencedOutputs or Unfenced")
	flags.StringVar(&f.protocol, "protocol", holdfast.Cooperative.String(), "group protocol: Cooperative, Eager or ServerSide (KIP-848)")
	flags.StringVar(&f.instance, "instance-id", "", "`id` of a static member")
	flags.DurationVar(&f.session, "session-timeout", 0, "Member.SessionTimeout (default 10s)")
	flags.DurationVar(&f.rebal, "rebalance-timeout", 0, "Member.RebalanceTimeout (default 1m)")
	flags.DurationVar(&f.heartbeat, "heartbeat-interval", 0, "Member.HeartbeatInterval (default 3s)")
	flags.DurationVar(&f.txn, "transaction-timeout", 0, "Member.TransactionTimeout (default 30s)")
	flags.DurationVar(&f.commit, "commit-interval", 0, "Commit.Interval (default 5s, of a pipe or with FencedOutputs 100ms)")
	flags.DurationVar(&f.revoke, "revoke-budget", 0, "Commit.RevokeBudget (default: 15s, and half the rebalance timeout at most)")
	flags.BoolVar(&f.probe, "probe", false, "make the brokers refuse a stale owner, in a group of its own")
	flags.BoolVar(&f.strictness, "strict", false, "end with 1 also after a warning")
	return c
}

// checker is a flow or a pipe that is looked at and never run.
type checker interface {
	Check(ctx context.Context) (claim.Report, error)
}

func (a *app) runCheck(ctx context.Context, f checkFlags) error {
	if f.group == "" || len(f.inputs) == 0 {
		return usage("holdfast check --group ledger --input payments", "--group and --input are required")
	}
	if f.kind == claim.ComponentPipe && f.compacted != "" || f.kind == claim.ComponentFlow && f.progress != "" {
		return usage("--snapshots of a flow, --progress of a pipe", "--snapshots and --progress: a %s has no such topic", f.kind)
	}
	k, err := a.connection.config(ctx)
	if err != nil {
		return err
	}
	component, err := f.component(k)
	if errors.Is(err, stream.ErrConfig) {
		return usage("holdfast check --help", "%w", err)
	}
	if err != nil {
		return err
	}
	if reached, err := a.connection.reach(ctx); err == nil {
		k = reached
	} else if !a.json || ctx.Err() != nil { // else the report has it
		return err
	}
	if !f.probe {
		ctx = rule.Without(ctx, rule.FenceProbe)
	}
	report, err := component.Check(ctx)
	if len(report.Findings) == 0 || ctx.Err() != nil {
		return err
	}
	if a.json {
		out := json.NewEncoder(a.stdout)
		out.SetEscapeHTML(false)
		if err := out.Encode(f.result(report)); err != nil {
			return err
		}
	} else if err := a.printChecked(f, k, report); err != nil {
		return err
	}
	return f.verdict(report, err)
}

// verdict turns what was found into what the command ends with. The faults were printed with their
// fixes.
func (f checkFlags) verdict(r claim.Report, err error) error {
	n := levels(r)
	switch {
	case n[claim.LevelFault] > 0:
		code := exitFailed
		for _, unreachable := range []error{stream.ErrUnreachable, stream.ErrNotAuthenticated, stream.ErrNotAuthorized, stream.ErrBrokerTooOld} {
			if errors.Is(err, unreachable) {
				code = exitUnreachable
			}
		}
		return &failure{code: code, try: "the fixes above, then check again", err: fmt.Errorf("%s: the %s would not start", count(n[claim.LevelFault], "fault"), f.kind)}
	case err != nil:
		return err
	case f.strictness && n[claim.LevelWarning] > 0:
		return &failure{code: exitFailed, try: "the fixes above, or leave --strict out", err: errors.New(count(n[claim.LevelWarning], "warning"))}
	}
	return nil
}

func levels(r claim.Report) map[claim.Level]int {
	n := map[claim.Level]int{}
	for _, f := range r.Findings {
		n[f.Level()]++
	}
	return n
}

// component makes what is to be checked. Its function is never called.
func (f checkFlags) component(k kafka.Config) (checker, error) {
	var letters *dlq.Policy
	if f.deadLetters != "" {
		letters = &dlq.Policy{Topic: f.deadLetters}
	}
	protocols := []holdfast.Protocol{holdfast.Cooperative, holdfast.Eager, holdfast.ServerSide}
	p := slices.IndexFunc(protocols, func(p holdfast.Protocol) bool { return strings.EqualFold(p.String(), f.protocol) })
	if p < 0 {
		return nil, usage("--protocol Cooperative, Eager or ServerSide", "--protocol %s: there is no such protocol", f.protocol)
	}
	member := holdfast.Member{
		Protocol: protocols[p], InstanceID: f.instance, SessionTimeout: f.session, RebalanceTimeout: f.rebal,
		HeartbeatInterval: f.heartbeat, TransactionTimeout: f.txn,
	}
	commit := holdfast.Commit{Interval: f.commit, RevokeBudget: f.revoke}
	var create *holdfast.TopicConfig
	if f.create {
		create = &holdfast.TopicConfig{}
	}
	switch f.kind {
	case claim.ComponentPipe:
		return pipe.New(pipe.Config{
			Kafka: k, Group: f.group, Inputs: f.inputs, Outputs: f.outputs, KeepPartition: f.keepPartition, Progress: f.progress, Create: create,
			DeadLetters: letters, Member: member, Commit: commit,
			Func: func(context.Context, stream.Record, *pipe.Out) error { return nil },
		})
	case claim.ComponentFlow:
	default:
		return nil, usage("--kind flow, or --kind pipe", "--kind %s: there is no such component", f.kind)
	}
	guarantees := []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs, holdfast.Unfenced}
	g := slices.IndexFunc(guarantees, func(g holdfast.Guarantee) bool { return strings.EqualFold(g.String(), f.guarantee) })
	if g < 0 {
		return nil, usage("--guarantee FencedState, FencedOutputs or Unfenced", "--guarantee %s: there is no such guarantee", f.guarantee)
	}
	return holdfast.New(holdfast.Config[[]byte]{
		Kafka: k, Group: f.group, Inputs: f.inputs, Outputs: f.outputs, Guarantee: guarantees[g],
		Snapshots: holdfast.Snapshots{Topic: f.compacted, Create: create}, Codec: codec.Bytes(),
		DeadLetters: letters, Member: member, Commit: commit,
		Fold: func(context.Context, *holdfast.Key[[]byte], stream.Record) error { return nil },
	})
}

// checked is what --json prints.
type checked struct {
	Group     string           `json:"group"`
	Kind      string           `json:"kind"`
	Guarantee string           `json:"guarantee,omitempty"` // of a flow
	OK        bool             `json:"ok"`                  // nothing refuses a start
	Level     claim.Level      `json:"level"`               // the gravest
	Findings  []checkedFinding `json:"findings"`
	Claims    []string         `json:"claims"` // none if a start is refused
}

type checkedFinding struct {
	ID    string      `json:"id"`
	Level claim.Level `json:"level"`
	What  string      `json:"what"`
	Found string      `json:"found"`
	Fix   []string    `json:"fix"`
}

func (f checkFlags) result(r claim.Report) checked {
	c := checked{Group: f.group, Kind: f.kind, Level: r.Level(), OK: r.Level() != claim.LevelFault, Claims: []string{}, Findings: []checkedFinding{}}
	if f.kind == claim.ComponentFlow {
		c.Guarantee = f.guarantee
	}
	for _, one := range r.Findings {
		c.Findings = append(c.Findings, checkedFinding{ID: one.ID, Level: one.Level(), What: one.What, Found: found(one), Fix: append([]string{}, one.Fix...)})
	}
	if c.OK {
		for _, one := range r.Claims {
			c.Claims = append(c.Claims, one.String())
		}
	}
	return c
}

// found is what a finding says, without the fix, which has a place of its own.
func found(f claim.Finding) string {
	text := f.Text()
	for _, fix := range f.Fix {
		text = strings.Replace(text, ". Next: "+fix, "", 1)
	}
	return text
}

// checkMargin is where what was found begins.
const checkMargin = 9

func (a *app) printChecked(f checkFlags, k kafka.Config, r claim.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of group %s at %s\n\n", f.kind, f.group, strings.Join(k.Brokers, ", "))
	colors := map[claim.Level]string{claim.LevelOK: green, claim.LevelFault: red}
	for _, one := range r.Findings {
		level := string(one.Level())
		head := fmt.Sprintf("%-*s", checkMargin, level)
		lines := strings.Split(found(one), "\n")
		text := indent(head+one.What+": "+lines[0], checkMargin, textColumns)
		for _, line := range lines[1:] {
			text += "\n" + indent(strings.Repeat(" ", checkMargin)+line, checkMargin, textColumns)
		}
		if color := colors[one.Level()]; color != "" && a.color(a.stdout) {
			text = color + level + plain + strings.TrimPrefix(text, level)
		}
		b.WriteString(text + "\n")
		for _, fix := range one.Fix {
			// A command is one line, so that it can be copied.
			fmt.Fprintf(&b, "%*sFix: %s\n", checkMargin, "", visible.Text(fix))
		}
	}
	if r.Level() != claim.LevelFault {
		for _, one := range r.Claims {
			b.WriteString("\n" + indent("Claim    "+one.String(), checkMargin, textColumns) + "\n")
		}
	}
	n := levels(r)
	fmt.Fprintf(&b, "\n%d ok, %s, %s, %d advice", n[claim.LevelOK], count(n[claim.LevelFault], "fault"), count(n[claim.LevelWarning], "warning"), n[claim.LevelAdvice])
	if !f.probe && r.Level() != claim.LevelFault && f.guarantee != claim.Unfenced {
		b.WriteString(". The fence was not probed: add --probe")
	}
	b.WriteString(".\n")
	_, err := io.WriteString(a.stdout, b.String())
	return err
}
