package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/letters"
)

// dlqFlags are the flags of all subcommands of dlq together.
type dlqFlags struct {
	partitions  []int32
	from, to    int64
	originTopic string
	reason      string
	limit       int
	dedup       bool

	target  string
	byKey   bool
	execute bool
}

func (a *app) dlqCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "dlq",
		Short: "List, show and replay dead letters",
		Long: `Dead letters are records that an application could not process and wrote to a topic of their
own. These commands read those of Holdfast, Kafka Connect, Kafka Streams and Spring.

They read what is committed, up to the end of the topic at that moment, join no group and commit
no offset.`,
		Args: knownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.dlqListCommand(), a.dlqShowCommand(), a.dlqReplayCommand())
	return c
}

// filterFlags are what list and replay choose letters by.
func (f *dlqFlags) filterFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.Int32SliceVar(&f.partitions, "partition", nil, "only these `partitions` of the dead-letter topic")
	flags.Int64Var(&f.from, "from", 0, "only letters from this `offset` of the partition on")
	flags.Int64Var(&f.to, "to-offset", 0, "only letters before this `offset` of the partition")
	flags.StringVar(&f.originTopic, "origin-topic", "", "only records of this `topic`")
	flags.StringVar(&f.reason, "reason", "", "only letters whose reason contains this `text`")
	flags.IntVar(&f.limit, "limit", 0, "no more than this many `letters`")
}

func (a *app) dlqListCommand() *cobra.Command {
	var f dlqFlags
	c := &cobra.Command{
		Use:   "list TOPIC",
		Short: "List the letters of a dead-letter topic",
		Long: `Lists where each letter stands (partition:offset), where its record comes from, how often it failed
and why. Keys and values are not shown.

--dedup lists one letter for each record: the one with the most attempts, and of those the newest.
Outside of transactions a crash can write a letter twice, and a record that was replayed and
failed again has another one.`,
		Args: oneTopic,
		RunE: func(c *cobra.Command, args []string) error { return a.listLetters(c, f, args[0]) },
	}
	f.filterFlags(c)
	c.Flags().BoolVar(&f.dedup, "dedup", false, "one letter for each record")
	return c
}

func (a *app) dlqShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show TOPIC PARTITION:OFFSET",
		Short: "Show one letter with its headers and payload",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage(c.CommandPath()+" TOPIC PARTITION:OFFSET, as the list has it", "a topic and a place are needed")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			place, err := parsePlace(args[1])
			if err != nil {
				return err
			}
			filter, err := a.letterFilter(c, dlqFlags{}, args[0])
			if err != nil {
				return err
			}
			l, err := filter.One(c.Context(), place)
			if errors.Is(err, letters.ErrNoLetter) {
				return &failure{code: exitFailed, try: a.name() + " dlq list " + args[0], err: err}
			}
			if err != nil {
				return err
			}
			return a.printLetter(l)
		},
	}
}

func (a *app) dlqReplayCommand() *cobra.Command {
	var f dlqFlags
	c := &cobra.Command{
		Use:   "replay TOPIC",
		Short: "Send letters back to where their records failed",
		Long: `Sends the records of letters to the topics they were read from when they failed, or to the one of --to.
Without --execute it only says what it would send.

Key, value, timestamp and headers are the record's. The origin stays in the headers, dlq.attempt is
one more, and dlq.replayed names the letter; if the record fails again, its letter has the first
origin and counts on. The letters stay where they are: a second replay sends them again, so go on
with --from where the last one ended.

One letter for each record is sent, the one with the most attempts; --dedup=false sends all. Letters
are of one record if origin, key, value and headers are equal.

In the topic it failed in a record goes to the partition it was in, because the key belongs there. With
--by-key, where that partition does not exist, and in another topic it goes to the partition that
Kafka's murmur2 of its key says; without a key to the number of its old partition, modulo the number
of partitions if there are fewer.

A letter is set aside, the others are sent, and the exit code is 1: without a readable origin; if origin
and place of failure are different topics, without --to; if the letter has not its whole record; if
the topic is gone, was created again, or does not take the record as it is. Nothing is ever sent to a
snapshot or progress topic (a compacted topic that ends in such records) or to a topic of the brokers'
own. An answer that is not about one letter ends the replay, which says what was sent.`,
		Args: oneTopic,
		RunE: func(c *cobra.Command, args []string) error { return a.replayLetters(c, f, args[0]) },
	}
	f.filterFlags(c)
	flags := c.Flags()
	flags.BoolVar(&f.dedup, "dedup", true, "one letter for each record")
	flags.StringVar(&f.target, "to", "", "send them all to this `topic`")
	flags.BoolVar(&f.byKey, "by-key", false, "choose the partition by the key in any topic")
	flags.BoolVar(&f.execute, "execute", false, "send them")
	return c
}

func oneTopic(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(c.CommandPath()+" TOPIC", "one dead-letter topic is needed")
	}
	return nil
}

func parsePlace(text string) (letters.Place, error) {
	partition, offset, ok := strings.Cut(text, ":")
	p, perr := strconv.ParseInt(partition, 10, 32)
	o, oerr := strconv.ParseInt(offset, 10, 64)
	if !ok || perr != nil || oerr != nil || p < 0 || o < 0 {
		return letters.Place{}, usage("0:17 is offset 17 of partition 0", "%q is no PARTITION:OFFSET", text)
	}
	return letters.Place{Partition: int32(p), Offset: o}, nil
}

// letterFilter is what the flags come to, after the cluster has answered once.
func (a *app) letterFilter(c *cobra.Command, f dlqFlags, topic string) (letters.Filter, error) {
	slices.Sort(f.partitions)
	filter := letters.Filter{Topic: topic, Patience: a.connection.timeout, Partitions: slices.Compact(f.partitions),
		From: f.from, To: f.to, OriginTopic: f.originTopic, Reason: f.reason, Limit: f.limit, Newest: f.dedup}
	switch {
	case f.from < 0 || f.to < 0 || f.limit < 0:
		return filter, usage("0 means all", "--from, --to-offset and --limit are 0 or more")
	case f.to > 0 && f.to <= f.from:
		return filter, usage("a larger --to-offset", "--to-offset %d is not above --from %d", f.to, f.from)
	case (f.from > 0 || f.to > 0) && len(filter.Partitions) != 1:
		return filter, usage("--partition P beside them", "--from and --to-offset are offsets of one partition")
	case f.target != "" && f.target == topic:
		return filter, usage("another topic", "--to %s is the dead-letter topic itself", topic)
	}
	var err error
	filter.Kafka, err = a.connection.reach(c.Context())
	return filter, err
}

func (a *app) listLetters(c *cobra.Command, f dlqFlags, topic string) error {
	filter, err := a.letterFilter(c, f, topic)
	if err != nil {
		return err
	}
	rows, err := filter.Rows(c.Context())
	if err != nil {
		return err
	}
	if letters.Foreign(rows) {
		note := fmt.Sprintf("None of these (%s) has the headers of dead letters: %s does not look like a dead-letter topic. To see its records: %s tail %s",
			count(len(rows), "record"), topic, a.name(), topic)
		fmt.Fprintln(a.stderr, wrap(note, textColumns))
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(map[string]any{"topic": topic, "letters": append([]letters.Row{}, rows...)})
	}
	return a.printRows(topic, rows)
}

func (a *app) replayLetters(c *cobra.Command, f dlqFlags, topic string) error {
	filter, err := a.letterFilter(c, f, topic)
	if err != nil {
		return err
	}
	plan, err := letters.Replay{Filter: filter, To: f.target, ByKey: f.byKey}.Plan(c.Context())
	if err != nil {
		return err
	}
	var sent letters.Sent
	if f.execute {
		sent, err = plan.Send(c.Context())
	}
	report := a.printReplay
	if a.json {
		report = a.encodeReplay
	}
	if perr := report(topic, f.execute, plan, sent, err); perr != nil || err != nil {
		return errors.Join(err, perr)
	}
	if n := len(plan.Unreadable); n > 0 {
		return &failure{code: exitFailed, try: fmt.Sprintf("%s dlq show %s %s", a.name(), topic, plan.Unreadable[0].Place),
			err: fmt.Errorf("%s without a readable origin cannot be replayed", count(n, "letter"))}
	}
	if refused := append(slices.Clone(plan.Refused), sent.Refused...); len(refused) > 0 {
		return &failure{code: exitFailed, try: fmt.Sprintf("%s dlq show %s %s", a.name(), topic, refused[0].Letter),
			err: fmt.Errorf("%s set aside, the first one for: %w", count(len(refused), "letter"), refused[0].Err())}
	}
	return nil
}
