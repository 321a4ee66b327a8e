package soak

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
)

func TestMain(m *testing.M) { kafkatest.Main(m, trial.Child()) }

const (
	partitions = 6
	perSecond  = 100 // records of the load
	nightly    = 10 * time.Minute
)

// apps are what may run; the seed chooses.
var apps = []trial.App{
	{Kind: trial.Flow, Guarantee: holdfast.FencedOutputs},
	{Kind: trial.Flow, Guarantee: holdfast.FencedState},
	{Kind: trial.Pipe},
}

// howLong returns how long the soak is to be, 0 for not at all.
func howLong(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("HOLDFAST_SOAK")
	if text == "" {
		if os.Getenv("HOLDFAST_NIGHTLY") == "1" {
			return nightly
		}
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Minute {
		t.Fatalf("HOLDFAST_SOAK is %q, want a duration of a minute or more", text)
	}
	return d
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("HOLDFAST_SOAK_SEED")
	if text == "" {
		return rand.Uint64() >> 32
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("HOLDFAST_SOAK_SEED: %v", err)
	}
	return n
}

// soak is a run: one member is left in peace, so that its process lives from beginning to end, and the
// others are killed and paused.
type soak struct {
	t      *testing.T
	f      *trial.Field
	random *rand.Rand
	steady *trial.Member
	others []*trial.Member

	kills, pauses, overSession int
	longest                    time.Duration // until everything was committed again
}

func TestKafkaSoak(t *testing.T) {
	length := howLong(t)
	if length == 0 {
		t.Skip("set HOLDFAST_SOAK to a duration, or make soak")
	}
	seed := seedOf(t)
	app := apps[seed%uint64(len(apps))]
	app.Commit, app.Stats = 100*time.Millisecond, 2*time.Second
	what := string(app.Kind)
	if app.Kind == trial.Flow {
		what = app.Guarantee.String()
	}
	fmt.Printf("soak: %v of %s, %d records a second, again with HOLDFAST_SOAK=%v HOLDFAST_SOAK_SEED=%d\n", length, what, perSecond, length, seed)
	s := &soak{t: t, f: trial.New(t, kafkatest.New(t, kafkatest.Options{Brokers: 3}), app, partitions), random: rand.New(rand.NewPCG(seed, 0))}
	s.steady = s.f.Member("steady")
	s.others = []*trial.Member{s.f.Member("one"), s.f.Member("two")}
	for _, m := range append([]*trial.Member{s.steady}, s.others...) {
		m.Start()
		m.Owns()
	}
	stopLoad := s.f.Load(perSecond)
	s.f.CaughtUp()
	begin := time.Now()
	for time.Since(begin) < length {
		s.strike()
	}
	stopLoad()
	s.f.CaughtUp()
	s.conclude(time.Since(begin))
}

// between is a time at random.
func (s *soak) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

// strike leaves the group in peace for a while, kills or pauses one of the others, or both of them one
// after the other, and waits until everything is committed again.
func (s *soak) strike() {
	time.Sleep(s.between(2*time.Second, 12*time.Second))
	order := s.random.Perm(len(s.others))
	n := 1 + s.random.IntN(len(order))
	var after []func()
	for _, i := range order[:n] {
		m := s.others[i]
		if s.random.IntN(2) == 0 {
			s.kills++
			m.Kill()
			after = append(after, m.Start)
		} else {
			s.pauses++
			m.Pause()
			after = append(after, m.Cont)
		}
		time.Sleep(s.between(0, 300*time.Millisecond))
	}
	away := s.between(500*time.Millisecond, 2*s.f.App.Session)
	if away > s.f.App.Session {
		s.overSession++
	}
	time.Sleep(away)
	for _, f := range after {
		f()
	}
	s.longest = max(s.longest, s.f.CaughtUp())
}

// conclude judges the run and prints what it has found.
func (s *soak) conclude(took time.Duration) {
	vs := s.f.Verdict()
	for _, v := range vs[:min(len(vs), 20)] {
		s.t.Error(v)
	}
	exits := s.steady.Exits()
	for _, m := range s.others {
		exits += m.Exits()
	}
	if exits > 0 {
		s.t.Errorf("%d processes have ended by themselves", exits)
	}
	all := s.f.Since(0, func(trial.Event) bool { return true })
	count := map[string]int{}
	refusals := map[string]int{}
	for _, e := range all {
		count[e.Kind]++
		if e.TookOver {
			count["taken over"]++
		}
		if e.Kind == holdfasttest.EventRefused {
			refusals[e.Cause]++
		}
	}
	if count["taken over"] == 0 || count[holdfasttest.EventLost] == 0 {
		s.t.Errorf("the faults have not bitten: %d takeovers, %d ownerships lost", count["taken over"], count[holdfasttest.EventLost])
	}
	var records int64
	for _, end := range s.f.Ends() {
		records += end
	}
	fmt.Printf("soak: %v, %d records, %d kills, %d pauses, %d strikes past the session, %d takeovers, %d ownerships lost, %d commits, refused %v; everything committed again within %.1f s; %d violations, %d exits\n",
		took.Round(time.Second), records, s.kills, s.pauses, s.overSession, count["taken over"], count[holdfasttest.EventLost],
		count[holdfasttest.EventCommitted], list(refusals), s.longest.Seconds(), len(vs), exits)
	s.growths(all)
}

// growths holds what each process uses against the bounds.
func (s *soak) growths(all []trial.Event) {
	judged := 0
	for _, p := range processes(all) {
		g, ok := grown(samples(all, p.Member, p.Life))
		if !ok {
			continue
		}
		judged++
		faults := g.faults()
		fmt.Printf("soak: %s.%d %v%s\n", p.Member, p.Life, g, strings.Join(append([]string{""}, faults...), "; TOO MUCH: "))
		for _, fault := range faults {
			s.t.Errorf("%s.%d: %s", p.Member, p.Life, fault)
		}
		if p.Member == s.steady.Name && g.samples < 10 {
			s.t.Errorf("%d samples of the steady member are too few", g.samples)
		}
	}
	if judged == 0 {
		s.t.Error("no process has told what it uses")
	}
}

func list(count map[string]int) []string {
	out := []string{}
	for _, k := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%d %s", count[k], k))
	}
	return out
}
