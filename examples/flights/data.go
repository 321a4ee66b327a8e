package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// records is described in testdata/README.md.
//
//go:embed testdata/flights.jsonl.gz
var records []byte

// flight is one line of the records.
type flight struct {
	Origin   string `json:"origin"`
	Delay    int    `json:"delay"`    // minutes at arrival, negative if early
	Distance int    `json:"distance"` // miles
	line     []byte
}

func readFlights() ([]flight, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(records))
	if err != nil {
		return nil, err
	}
	var out []flight
	lines := bufio.NewScanner(unpacked)
	for lines.Scan() {
		f := flight{line: bytes.Clone(lines.Bytes())}
		if err := json.Unmarshal(f.line, &f); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(out)+1, err)
		}
		out = append(out, f)
	}
	return out, lines.Err()
}

// airport is the state of one airport.
type airport struct {
	Flights  int `json:"flights"`
	Late     int `json:"late"`     // 15 minutes and more
	DelaySum int `json:"delaySum"` // minutes
	DelayMax int `json:"delayMax"` // minutes
	Miles    int `json:"miles"`
}

// add is the fold without Kafka. aggregate does not use it, so that a mistake in it is found.
func (a airport) add(f flight) airport {
	if a.Flights == 0 || f.Delay > a.DelayMax {
		a.DelayMax = f.Delay
	}
	if f.Delay >= 15 {
		a.Late++
	}
	a.Flights++
	a.DelaySum += f.Delay
	a.Miles += f.Distance
	return a
}

// aggregate computes every airport from its list of flights.
func aggregate(flights []flight) map[string]airport {
	byOrigin := map[string][]flight{}
	for _, f := range flights {
		byOrigin[f.Origin] = append(byOrigin[f.Origin], f)
	}
	out := map[string]airport{}
	for origin, of := range byOrigin {
		slices.SortFunc(of, func(a, b flight) int { return b.Delay - a.Delay })
		onTime := slices.IndexFunc(of, func(f flight) bool { return f.Delay < 15 })
		if onTime < 0 {
			onTime = len(of)
		}
		sum, miles := 0, 0
		for _, f := range of {
			sum, miles = sum+f.Delay, miles+f.Distance
		}
		out[origin] = airport{Flights: len(of), Late: onTime, DelaySum: sum, DelayMax: of[0].Delay, Miles: miles}
	}
	return out
}

// printTable prints the n busiest airports.
func printTable(w io.Writer, states map[string]airport, n int) {
	origins := slices.SortedFunc(maps.Keys(states), func(a, b string) int {
		if d := states[b].Flights - states[a].Flights; d != 0 {
			return d
		}
		return bytes.Compare([]byte(a), []byte(b))
	})
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "origin\tflights\tlate\tmean delay (minutes)\tmax delay (minutes)\tmean distance (miles)\t")
	for _, o := range origins[:min(n, len(origins))] {
		a := states[o]
		fmt.Fprintf(t, "%s\t%d\t%d %%\t%.1f\t%d\t%d\t\n", o, a.Flights, 100*a.Late/a.Flights,
			float64(a.DelaySum)/float64(a.Flights), a.DelayMax, a.Miles/a.Flights)
	}
	t.Flush()
}

var errDiffers = errors.New("the states differ from the independent aggregation")

// verdict compares and says the result in one line.
func verdict(w io.Writer, got, want map[string]airport, flights int) error {
	differ := 0
	for origin := range maps.Keys(want) {
		if got[origin] != want[origin] {
			differ++
		}
	}
	for origin := range maps.Keys(got) {
		if _, ok := want[origin]; !ok {
			differ++
		}
	}
	if differ > 0 {
		fmt.Fprintf(w, "WRONG: %d of %d airports differ from the independent aggregation of %d flights\n", differ, len(want), flights)
		return errDiffers
	}
	fmt.Fprintf(w, "OK: all %d airports equal the independent aggregation of %d flights\n", len(want), flights)
	return nil
}
