package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Configs are the bounded instances.
func Configs() []Config {
	put, put2, del := Rec{Key: 0}, Rec{Key: 1}, Rec{Key: 0, Del: true}
	marker, moved := Rec{Marker: true}, Rec{Key: 1, Moved: true}
	return []Config{
		everyFault(Config{Name: "state-1key", Input: []Rec{put, put}}),
		everyFault(Config{Name: "state-2key", Input: []Rec{put2, put}}),
		everyFault(Config{Name: "state-3rec", Input: []Rec{put, put2, put}}),
		everyFault(Config{Name: "state-del", Input: []Rec{put2, put, del}}),
		everyFault(Config{Name: "state-del2", Input: []Rec{put, put, del}}),
		everyFault(Config{Name: "state-delput", Input: []Rec{put, del, put}}),
		everyFault(Config{Name: "outputs-1key", Input: []Rec{put, put}, Outputs: true}),
		everyFault(Config{Name: "outputs-2key", Input: []Rec{put2, put}, Outputs: true}),
		everyFault(Config{Name: "outputs-del", Input: []Rec{put, del, put}, Outputs: true}),
		everyFault(Config{Name: "kip848-state", Input: []Rec{put, put}, KeepID: true, Lenient: true}),
		everyFault(Config{Name: "kip848-outputs", Input: []Rec{put, put}, Outputs: true, KeepID: true, Lenient: true}),
		everyFault(Config{Name: "latest-state", Input: []Rec{put, put}, Latest: true}),
		everyFault(Config{Name: "latest-outputs", Input: []Rec{put, put}, Outputs: true, Latest: true}),
		withAccident(everyFault(Config{Name: "accident-state", Input: []Rec{put, put}})),
		withAccident(everyFault(Config{Name: "accident-del", Input: []Rec{put, del, put}})),
		withAccident(everyFault(Config{Name: "accident-outputs", Input: []Rec{put, del}, Outputs: true})),
		everyFault(Config{Name: "head-state", Input: []Rec{put2, put}, Head: true}),
		everyFault(Config{Name: "read-state", Input: []Rec{put, marker}, Empties: true}),
		everyFault(Config{Name: "read-outputs", Input: []Rec{put, marker}, Outputs: true, Empties: true}),
		everyFault(Config{Name: "leave-state", Input: []Rec{put, put}, Leave: true}),
		everyFault(Config{Name: "leave-outputs", Input: []Rec{put, put}, Outputs: true, Leave: true}),
		everyFault(Config{Name: "slow-state", Input: []Rec{put2, put}, Slow: true}),
		everyFault(Config{Name: "slow-outputs", Input: []Rec{put, put}, Outputs: true, Slow: true}),
		everyFault(Config{Name: "slow-pipe", Input: []Rec{put, put}, Outputs: true, Pipe: true, Slow: true}),
		everyFault(Config{Name: "rebuild-state", Input: []Rec{put}, Rebuild: true}),
		everyFault(Config{Name: "rebuild-outputs", Input: []Rec{put}, Outputs: true, Rebuild: true}),
		everyFault(Config{Name: "grow-state", Input: []Rec{put, moved}, Grow: true}),
		everyFault(Config{Name: "grow-outputs", Input: []Rec{put, moved}, Outputs: true, Grow: true}),
	}
}

// options are the flags.
type options struct {
	config, only, off, on      string
	faults, max                int
	first, trace, cycles, seen bool
}

func main() {
	var o options
	flag.StringVar(&o.config, "config", "all", "configuration, or all")
	flag.IntVar(&o.faults, "faults", 2, "faults in all")
	flag.StringVar(&o.only, "only", "", "fault classes allowed, comma separated (default: those of the configuration)")
	flag.StringVar(&o.off, "off", "", "rules switched off, comma separated")
	flag.StringVar(&o.on, "on", "", "other fields of Config switched on, comma separated")
	flag.IntVar(&o.max, "max", 20e6, "states at most")
	flag.BoolVar(&o.first, "first", false, "stop at the first violation")
	flag.BoolVar(&o.trace, "trace", false, "print the shortest trace of each violation")
	flag.BoolVar(&o.cycles, "cycles", false, "look for runs without faults that never end")
	flag.BoolVar(&o.seen, "seen", false, "print how often each kind of step was taken")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "no argument %s: the names of a list have commas between them, and no spaces\n", flag.Arg(0))
		os.Exit(2)
	}
	for _, name := range slices.Concat(split(o.off), split(o.on), split(o.only)) {
		if f := reflect.ValueOf(Config{}).FieldByName(name); !f.IsValid() || f.Kind() != reflect.Bool {
			fmt.Fprintf(os.Stderr, "no rule, option or fault class %s; config.go has them\n", name)
			os.Exit(2)
		}
	}
	ran, bad := 0, false
	for _, c := range Configs() {
		if o.config == "all" || o.config == c.Name {
			ran++
			bad = o.run(&c) || bad
		}
	}
	switch {
	case ran == 0:
		fmt.Fprintf(os.Stderr, "no configuration %s; there are %s, and all for all of them\n", o.config, strings.Join(names(), ", "))
		os.Exit(2)
	case bad:
		os.Exit(1)
	}
}

// run explores one configuration, and reports whether a check failed or the search was cut short.
func (o *options) run(c *Config) bool {
	c.Faults = uint8(o.faults)
	if o.only != "" {
		for _, f := range []string{"Crash", "Expel", "Silent", "Net", "Timeout", "Bump", "Move", "Refuse", "Failover",
			"Accident", "Head", "Empties", "Leave", "Slow", "Grow"} {
			set(c, f, slices.Contains(split(o.only), f))
		}
	}
	for _, f := range split(o.off) {
		set(c, f, false)
	}
	for _, f := range split(o.on) {
		set(c, f, true)
	}
	if o.seen {
		c.Seen = map[string]int{}
	}
	start := time.Now()
	res := Run(c, o.max, o.first)
	fmt.Printf("%-16s faults %d %-22s states %9d edges %9d depth %3d full %-5v %6.1fs",
		c.Name, o.faults, o.switched(), res.States, res.Edges, res.Depth, res.Full, time.Since(start).Seconds())
	for b, n := range res.Count {
		if n > 0 {
			fmt.Printf(" | %s: %d, at step %d", badName[b], n, res.Dist[b])
		}
	}
	if !res.Violated() {
		fmt.Print(" | no violation")
	}
	fmt.Println()
	for _, what := range slices.Sorted(maps.Keys(c.Seen)) {
		fmt.Printf("%10d %s\n", c.Seen[what], what)
	}
	endless := 0
	if o.cycles && res.Full {
		endless = o.printEndless(res)
	}
	for b, n := range res.Count {
		if n > 0 && o.trace {
			fmt.Println("--", badName[b])
			fmt.Println(strings.Join(res.Trace(res.First[b]), "\n"))
		}
	}
	return res.Violated() || !res.Full || endless > 0
}

// switched says which rules and options are not as the configuration has them.
func (o *options) switched() string {
	out := "off " + orDash(o.off)
	if o.on != "" {
		out += " on " + o.on
	}
	return out
}

func names() (names []string) {
	for _, c := range Configs() {
		names = append(names, c.Name)
	}
	return names
}

func (o *options) printEndless(res *Result) int {
	n, cycle := res.Endless()
	fmt.Printf("endless without a fault: %d states, shortest cycle %d steps\n", n, len(cycle))
	if n > 0 && o.trace {
		path := res.path(cycle[len(cycle)-1])
		lines := res.follow(append(slices.Clone(reversed(cycle)), path...))
		fmt.Println(strings.Join(lines[:len(path)], "\n") + "\n-- for ever:\n" + strings.Join(lines[len(path):], "\n"))
	}
	return n
}

func reversed(a []int) []int {
	a = slices.Clone(a)
	slices.Reverse(a)
	return a
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// set switches the rule or fault class of that name.
func set(c *Config, name string, v bool) {
	f := reflect.ValueOf(c).Elem().FieldByName(name)
	if !f.IsValid() {
		panic("model: no rule or fault class " + name)
	}
	f.SetBool(v)
}
