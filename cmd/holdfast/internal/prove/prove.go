package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Verdict is what an exercise came to.
type Verdict string

// The verdicts. An exercise whose fault could not be made, or did not do what it has to, claims nothing.
const (
	Proved   Verdict = "proved"
	Refuted  Verdict = "refuted"
	NotShown Verdict = "not shown"
)

const (
	// exerciseLimit bounds one exercise: each takes seconds, most of them the group's first rebalance.
	exerciseLimit = 2 * time.Minute
	// cleanLimit bounds the clean-up, also of a run that was interrupted.
	cleanLimit = time.Minute
	// stepLimit bounds one request of it, and the creation of a topic.
	stepLimit = 20 * time.Second
	// transactionTimeout is how long a transaction may stay open that nobody ends.
	transactionTimeout = 30 * time.Second
)

var errTime = fmt.Errorf("it did not end within %v", exerciseLimit)

// Options say what Run does. Kafka, Prefix, Replicas, MinISR, Claims and Rival are required.
type Options struct {
	Kafka    kafka.Config
	Prefix   string   // of the names of everything that is made
	Replicas int      // of each topic; what the cluster has, if that is less
	MinISR   int      // min.insync.replicas of each topic
	Claims   []string // the exercises, out of claim.Proofs
	// Rival is the command line of the second process: this program, with the subcommand that calls
	// RunRival.
	Rival    []string
	Progress func(line string) // told what is being done; nil: nobody is told
	Logger   *slog.Logger      // nil: discard
	Run      string            // names the run; "": a new one
}

func (o Options) bootstrap() string { return strings.Join(o.Kafka.Brokers, ",") }

func (o Options) note(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Outcome is one exercise.
type Outcome struct {
	Name     string      `json:"name"`
	Verdict  Verdict     `json:"verdict"`
	Summary  string      `json:"summary"` // a sentence on what was done and seen; "" if nothing was shown
	Why      string      `json:"why"`     // of a verdict that is not Proved
	Claim    Claim       `json:"claim"`
	Evidence []string    `json:"evidence"`
	Observed observation `json:"observed"` // null if the exercise ended before it saw anything
	TookMs   int64       `json:"tookMs"`
}

// Claim is a claim.Claim as JSON.
type Claim struct {
	Hop       string `json:"hop"`
	Component string `json:"component"`
	Guarantee string `json:"guarantee"`
	Statement string `json:"statement"`
	Crash     string `json:"crash"`
	Boundary  string `json:"boundary"`
	Weaker    string `json:"weaker"` // what on this cluster makes it weaker; "" if nothing
}

// Report is a whole run.
type Report struct {
	Run                string    `json:"run"`
	Brokers            int       `json:"brokers"`
	TransactionVersion int16     `json:"transactionVersion"`
	Replicas           int16     `json:"replicas"`
	MinISR             int       `json:"minISR"`
	Weaker             []string  `json:"weaker"`
	Exercises          []Outcome `json:"exercises"`
	Proved             int       `json:"proved"`
	Refuted            int       `json:"refuted"`
	NotShown           int       `json:"notShown"`
	Cleaned            Cleaned   `json:"cleaned"`
	TransactionalIDs   []string  `json:"transactionalIDs"` // that were used: no request deletes one
	MissingRights      []string  `json:"missingRights"`    // commands that grant them
}

// observation is what an exercise saw.
type observation interface {
	// judge says what the claim comes to in the light of it, and why if it is not Proved.
	judge() (Verdict, string)
	// lines are the observation as text.
	lines() []string
}

var exercises = map[string]func(context.Context, *world) (observation, error){
	claim.ProveSends:      runSends,
	claim.ProveAborted:    runAborted,
	claim.ProveFencing:    runFencing,
	claim.ProveGeneration: runGeneration,
	claim.ProveTakeover:   runTakeover,
}

func (o Options) check() error {
	if err := checkPrefix(o.Prefix); err != nil {
		return err
	}
	if o.Replicas < 1 || o.MinISR < 1 || o.MinISR > o.Replicas || o.Replicas > 100 {
		return stream.NewError("prove", fmt.Errorf("%w: replication %d with min.insync.replicas %d", stream.ErrConfig, o.Replicas, o.MinISR)).
			Hinted("--replication 3 --min-isr 2")
	}
	if len(o.Claims) == 0 {
		return stream.NewError("prove", fmt.Errorf("%w: no exercise was chosen", stream.ErrConfig)).Hinted("--list shows them")
	}
	for _, c := range o.Claims {
		if !slices.Contains(claim.Proofs(), c) {
			return stream.NewError("prove", fmt.Errorf("%w: there is no exercise %q", stream.ErrConfig, c)).
				Hinted("choose of %s", strings.Join(claim.Proofs(), ", "))
		}
	}
	return nil
}

// Run runs the exercises one after the other and removes what they made, also when ctx ends. The report
// is whole as far as the run came, beside an error too. A refuted claim is no error.
//
// It returns stream.ErrConfig, stream.ErrUnreachable, stream.ErrNotAuthorized with the ACL that is
// missing (the other exercises have run then), the cause of ctx, and what the clean-up met.
func Run(ctx context.Context, o Options) (r Report, err error) {
	if err := o.check(); err != nil {
		return r, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w, err := openWorld(ctx, o, cmp.Or(o.Run, newRun(time.Now())))
	if err != nil {
		return r, err
	}
	defer w.cl.Close()
	r = Report{Run: w.run, Brokers: w.brokers, TransactionVersion: w.features.TransactionVersion, Replicas: w.replicas,
		MinISR: w.minISR, Weaker: w.weaker, Exercises: []Outcome{}, MissingRights: []string{}}
	o.note("run %s: topics, groups and transactional ids are named %s…", w.run, w.name(""))
	var d denied
	err = w.exercise(ctx, &r, &d)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	o.note("clean up: %s, %s", count(len(w.made.topics), "topic"), count(len(w.made.groups), "group"))
	var left error
	r.Cleaned, left = w.clean(clean)
	r.TransactionalIDs = w.made.ids
	if len(rights(o, left)) > 0 {
		d.add(o, left)
		d.left, left = len(r.Cleaned.Left), nil
	}
	r.MissingRights = append(r.MissingRights, d.commands...)
	return r, errors.Join(err, d.err(), left)
}

// exercise runs those that were chosen, and goes on after one that is not permitted: another may be.
func (w *world) exercise(ctx context.Context, r *Report, d *denied) error {
	for i, name := range w.o.Claims {
		w.o.note("%d/%d %s", i+1, len(w.o.Claims), name)
		out, err := w.one(ctx, name)
		r.add(out)
		w.o.note("    %s%s", out.Verdict, colon(out.Why))
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		switch {
		case errors.Is(err, stream.ErrNotAuthorized):
			d.exercises = append(d.exercises, name)
			d.add(w.o, err)
		case errors.Is(err, stream.ErrUnreachable), errors.Is(err, stream.ErrNotAuthenticated),
			errors.Is(err, stream.ErrBrokerTooOld), errors.Is(err, stream.ErrConfig):
			return err
		}
	}
	return nil
}

func colon(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func (w *world) one(ctx context.Context, name string) (Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, exerciseLimit, errTime)
	defer cancel()
	began := time.Now()
	seen, err := exercises[name](ctx, w)
	err = explain(w.o, name, err)
	out := outcome(name, seen, err, w.weaker)
	out.TookMs = time.Since(began).Milliseconds()
	return out, err
}

// outcome judges what was seen. What was seen before an exercise failed is evidence, and is not judged:
// it is not known what is missing in it.
func outcome(name string, seen observation, err error, weaker []string) Outcome {
	c, _ := claim.Prove(name)
	c.Weaker = strings.Join(weaker, "; ")
	out := Outcome{Name: name, Claim: Claim(c), Verdict: NotShown, Evidence: []string{}}
	if seen != nil {
		out.Observed, out.Evidence = seen, seen.lines()
	}
	switch {
	case err != nil:
		out.Why = "the exercise did not come to its end: " + cause(err)
	case seen != nil:
		out.Verdict, out.Why = seen.judge()
	}
	out.Summary = summary(name, out.Verdict)
	return out
}

func (r *Report) add(out Outcome) {
	r.Exercises = append(r.Exercises, out)
	switch out.Verdict {
	case Proved:
		r.Proved++
	case Refuted:
		r.Refuted++
	case NotShown:
		r.NotShown++
	}
}
