package prove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// Cleaned is what was removed and what could not be.
type Cleaned struct {
	Topics []string `json:"topics"`
	Groups []string `json:"groups"`
	Left   []string `json:"left"` // what could not be removed, each with why
}

// nothing has lists and no nulls, for whoever reads the JSON.
func nothing() Cleaned { return Cleaned{Topics: []string{}, Groups: []string{}, Left: []string{}} }

// clean removes what this run made. It goes on after an error, so that one missing permission does not
// leave everything else behind.
func (w *world) clean(ctx context.Context) (Cleaned, error) {
	c := nothing()
	var errs []error
	for _, id := range w.made.ids {
		if err := w.end(ctx, id); err != nil {
			c.Left = append(c.Left, fmt.Sprintf("transactional id %s may have a transaction open for up to %v: %v", id, transactionTimeout, err))
			errs = append(errs, err)
		}
	}
	errs = append(errs, remove(ctx, w.cl, w.made.topics, w.made.groups, &c))
	return c, errors.Join(errs...)
}

// end initialises an id once more, which ends whatever transaction is open under it. A transaction
// would else hold its group back until it times out, after its topics have gone.
func (w *world) end(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	cl, err := w.o.Kafka.Client(kgo.TransactionalID(id), kgo.TransactionTimeout(transactionTimeout))
	if err != nil {
		return err
	}
	defer cl.Close()
	_, _, err = cl.ProducerID(ctx)
	return err
}

// remove deletes topics and groups, and returns when no broker that is asked shows the topics any more.
func remove(ctx context.Context, cl *kgo.Client, topics, groups []string, c *Cleaned) error {
	var errs []error
	left := func(what, name string, err error) {
		c.Left = append(c.Left, fmt.Sprintf("%s %s: %v", what, name, err))
		errs = append(errs, fmt.Errorf("delete %s %s: %w", what, name, err))
	}
	for _, group := range groups {
		switch deleted, err := deleteGroup(ctx, kadm.NewClient(cl), group); {
		case err != nil:
			left("group", group, err)
		case deleted:
			c.Groups = append(c.Groups, group)
		}
	}
	for _, topic := range topics {
		switch deleted, err := deleteTopic(ctx, cl, topic); {
		case err != nil:
			left("topic", topic, err)
		case deleted:
			c.Topics = append(c.Topics, topic)
		}
	}
	return errors.Join(errs...)
}

// deleteGroup waits for the last member to have left.
func deleteGroup(ctx context.Context, adm *kadm.Client, group string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	for {
		err := patiently(ctx, func() error {
			all, err := adm.DeleteGroups(ctx, group)
			if err == nil {
				err = all[group].Err
			}
			return err
		})
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, kerr.GroupIDNotFound):
			return false, nil // nobody had joined it yet
		case !errors.Is(err, kerr.NonEmptyGroup) || pause(ctx) != nil:
			return false, err
		}
	}
}

func deleteTopic(ctx context.Context, cl *kgo.Client, topic string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	all, err := kadm.NewClient(cl).DeleteTopics(ctx, topic)
	if err == nil {
		err = all[topic].Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := everywhere(ctx, cl, topic, false); err != nil {
		return true, fmt.Errorf("its deletion was accepted and is not done: %w", err)
	}
	return true, nil
}

// Clean removes what earlier runs under the prefix have left behind, and nothing else: topics and groups
// whose names are those that a run gives. What a run may still be using is left, and an error says so: a
// run that began less than a minute ago by this host's clock, or that has a member in a group. It returns
// stream.ErrConfig for a prefix that no topic can have, and what the cluster does not permit as
// stream.ErrNotAuthorized.
func Clean(ctx context.Context, o Options) (Cleaned, error) {
	if err := checkPrefix(o.Prefix); err != nil {
		return nothing(), err
	}
	cl, err := o.Kafka.Client()
	if err != nil {
		return nothing(), err
	}
	defer cl.Close()
	c, err := cleanLeftovers(ctx, cl, o)
	return c, explain(o, "clean up", err)
}

func cleanLeftovers(ctx context.Context, cl *kgo.Client, o Options) (Cleaned, error) {
	adm := kadm.NewClient(cl)
	c := nothing()
	listed, err := adm.ListTopics(ctx)
	if err != nil {
		return c, fmt.Errorf("list topics: %w", err)
	}
	known, err := listGroups(ctx, adm)
	if err != nil {
		return c, err
	}
	topics, groups := ours(o.Prefix, topicEnds, slices.Sorted(maps.Keys(listed))), ours(o.Prefix, groupEnds, known.Groups())
	busy, err := busyRuns(ctx, adm, o.Prefix, groups)
	if err != nil {
		return c, err
	}
	for _, n := range slices.Concat(topics, groups) {
		if run := runOf(o.Prefix, n); begun(run).After(time.Now().Add(-youngRun)) {
			busy[run] = fmt.Sprintf("it began less than %v ago", youngRun)
		}
	}
	idle := func(names []string) (kept []string) {
		for _, n := range names {
			if busy[runOf(o.Prefix, n)] == "" {
				kept = append(kept, n)
			}
		}
		return kept
	}
	err = remove(ctx, cl, idle(topics), idle(groups), &c)
	for _, run := range slices.Sorted(maps.Keys(busy)) {
		why := fmt.Sprintf("run %s may be going on: %s", run, busy[run])
		c.Left = append(c.Left, why)
		err = errors.Join(err, stream.NewError("clean up", errors.New(why)).Hinted("wait a minute, and run it again"))
	}
	return c, err
}

// ours picks the names that runs give.
func ours(prefix string, ends, names []string) (found []string) {
	match := leftover(prefix, ends)
	for _, n := range names {
		if match.MatchString(n) {
			found = append(found, n)
		}
	}
	return found
}

// youngRun is how long a run may go on between its beginning and its first group.
const youngRun = time.Minute

// busyRuns returns the runs that have a member in a group, each with that as a sentence.
func busyRuns(ctx context.Context, adm *kadm.Client, prefix string, groups []string) (map[string]string, error) {
	busy := map[string]string{}
	if len(groups) == 0 {
		return busy, nil
	}
	described, err := adm.DescribeGroups(ctx, groups...)
	if err != nil {
		return nil, fmt.Errorf("describe groups: %w", err)
	}
	for _, g := range described {
		if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
			return nil, fmt.Errorf("describe group %s: %w", g.Group, g.Err)
		}
		if len(g.Members) > 0 {
			busy[runOf(prefix, g.Group)] = "a group of it has members"
		}
	}
	return busy, nil
}
