package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// tailFlags are those of holdfast tail.
type tailFlags struct {
	partition    int32
	from, to     string
	isolation    string
	show         []string
	limit        int
	follow       bool
	keys, values string
	cut          int
}

// followedBefore is how many offsets before the end a follower begins by default.
const followedBefore = 10

func (a *app) tailCommand() *cobra.Command {
	var f tailFlags
	c := &cobra.Command{
		Use:   "tail TOPIC",
		Short: "Show a topic's records with what became of their transactions",
		Long: `Show the records of a topic, and for each whether its transaction was committed, aborted
or is open, and which producer wrote it.

With --isolation read_uncommitted, as Kafka's consumers are unless told otherwise, everything
is shown. With read_committed it is what such a reader is given: nothing of aborted
transactions, and nothing past the first open one. What was there, and what each level makes
of it, is said on standard error at the end.

Statuses: committed, aborted, open (no marker up to the end of the log), plain (written outside
of transactions), and commit-marker and abort-marker, which end the transaction of a producer
and take up an offset. Nothing is written and no group is joined.

A line has the producer's id and epoch. Whose they are, by transactional id, is said on standard
error: at the end, or with --follow when the producer is seen first. Holdfast's progress records
are shown in words, unless --keys hex or --values hex asks for their bytes.

--json prints one object a line: topic, partition, offset, timestamp, status, stable (below
the last stable offset), producer_id, producer_epoch, transactional_id, coordinator_epoch (of a
marker), leader_epoch, key, value, headers (which text leaves out). A key or value that is not UTF-8 is key_base64 or
value_base64 instead.`,
		Example: `  holdfast tail payments --brokers localhost:9092
  holdfast tail payments --brokers localhost:9092 --isolation read_committed --from -20
  holdfast tail payments --brokers localhost:9092 --show aborted,open --json
  holdfast tail payments --brokers localhost:9092 --partition 3 --from 1200 --to 1300 --values none
  holdfast tail payments --brokers localhost:9092 --follow`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(c.CommandPath()+" TOPIC", "name one topic, not %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.runTail(c, f, args[0]) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.isolation, "isolation", "read_uncommitted", "show as a reader of this `level` sees it: read_committed or read_uncommitted")
	flags.StringSliceVar(&f.show, "show", nil, "show only these `statuses` of committed, aborted, open, plain, markers (default: all that the level has)")
	flags.Int32Var(&f.partition, "partition", -1, "show this `partition` only (default: all)")
	flags.StringVar(&f.from, "from", "", fmt.Sprintf("`place` to begin at: an offset, start, end, or -N for N offsets before the end (default: start; with --follow -%d)", followedBefore))
	flags.StringVar(&f.to, "to", "end", "`place` to end at, an offset that is not shown any more, or end")
	flags.IntVar(&f.limit, "limit", 0, "stop after so many `lines` (default: no limit)")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with what is written, until interrupted")
	flags.StringVar(&f.keys, "keys", string(tail.Text), "show keys in this `format`: text (quoted, unsafe bytes escaped), hex, or none")
	flags.StringVar(&f.values, "values", string(tail.Text), "show values in this `format`")
	flags.IntVar(&f.cut, "cut", 200, "`bytes` of a key or value in text; 0: all of them")
	flags.Lookup("partition").DefValue = "0" // the help would else say that -1 is the default, besides "all"
	return c
}

// config checks everything that can be checked before the cluster is asked.
func (f tailFlags) config() (tail.Config, error) {
	c := tail.Config{Limit: f.limit, Follow: f.follow, Cut: f.cut}
	switch f.isolation {
	case "read_committed":
		c.Committed = true
	case "read_uncommitted":
	default:
		return c, usage("--isolation read_committed, or read_uncommitted", "--isolation %s: there is no such level", f.isolation)
	}
	if f.limit < 0 || f.cut < 0 {
		return c, usage("leave it out, or give a number from 0 on", "--limit and --cut cannot be negative")
	}
	if f.partition < -1 {
		return c, usage("leave --partition out to see all of them", "--partition %d: partitions are numbered from 0 on", f.partition)
	}
	var err error
	if c.Show, err = tail.ParseShow(f.show, c.Committed); err != nil {
		return c, usage("--show committed,aborted,open,plain,markers, with --isolation read_uncommitted", "--show: %w", err)
	}
	from := f.from
	if from == "" {
		from = "start"
		if f.follow {
			from = fmt.Sprint(-followedBefore)
		}
	}
	if c.From, err = tail.ParsePlace(from); err != nil {
		return c, usage("--from start, --from 1200, or --from -20", "--from: %w", err)
	}
	if c.To, err = tail.ParsePlace(f.to); err == nil && !c.To.Absolute() && c.To != tail.End {
		err = fmt.Errorf("%q is neither an offset nor end", f.to)
	}
	if err != nil {
		return c, usage("--to end, or --to 1300", "--to: %w", err)
	}
	if c.Keys, err = tail.ParseFormat(f.keys); err != nil {
		return c, usage("--keys hex", "--keys: %w", err)
	}
	if c.Values, err = tail.ParseFormat(f.values); err != nil {
		return c, usage("--values hex", "--values: %w", err)
	}
	return c, nil
}

func (a *app) runTail(c *cobra.Command, f tailFlags, topic string) error {
	config, err := f.config()
	if err != nil {
		return err
	}
	k, err := a.connection.reach(c.Context())
	if err != nil {
		return err
	}
	config.Client, err = k.Client()
	if err != nil {
		return err
	}
	defer config.Client.Close()
	config.Topic, config.Patience = topic, a.connection.timeout
	config.JSON, config.Out, config.Color = a.json, a.stdout, a.color(a.stdout)
	config.Note = func(line string) { fmt.Fprintln(a.stderr, wrap(line, textColumns)) }
	partitions, err := wire.Partitions(c.Context(), config.Client, topic)
	if err != nil {
		return tailError(err)
	}
	if config.Partitions, err = f.partitions(topic, partitions, config); err != nil {
		return err
	}
	return tailError(tail.Run(c.Context(), config))
}

// partitions returns those that are to be shown of all there are.
func (f tailFlags) partitions(topic string, all int32, c tail.Config) ([]int32, error) {
	if f.partition >= all {
		return nil, usage(fmt.Sprintf("a partition from 0 to %d", all-1), "--partition %d: %s has %d partitions", f.partition, topic, all)
	}
	if f.partition >= 0 {
		return []int32{f.partition}, nil
	}
	if all > 1 && (c.From.Absolute() || c.To.Absolute()) {
		return nil, usage("--partition N beside it", "an offset means another record in each of the %d partitions of %s", all, topic)
	}
	var some []int32
	for n := range all {
		some = append(some, n)
	}
	return some, nil
}

// tailError makes what the command line asked for and is not there an error of usage.
func tailError(err error) error {
	var outside *tail.RangeError
	var e *stream.Error
	switch {
	case errors.As(err, &outside):
		return usage("--"+outside.Flag+" start, end, or an offset in that range", "%w", err)
	case errors.Is(err, stream.ErrTopic) && errors.As(err, &e):
		return usage(e.Hint, "%s", strings.Replace(err.Error(), ". Next: "+e.Hint, "", 1))
	}
	return err
}
