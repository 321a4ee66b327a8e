package sweep

import (
	"fmt"
	"regexp"
	"slices"
)

// Piece is one run that passes or fails as a whole.
type Piece struct {
	Name string // "what/which", also the pattern to choose it by
	Env  []string
	Args []string // of the go command, or the command itself if it is another
	// Dir has the package that the piece is about: what that does not import cannot change the outcome. "": the product.
	Dir string
	// Says finds the lines of its output that the book keeps. nil: none.
	Says *regexp.Regexp
}

// The Kafka versions of the sweeps. The first one is that of the tests.
var versions = []string{"4.4.0", "4.0.0", "3.9.1"}

// Schedules in virtual time, and how many are one piece.
const (
	seeds     = 10_000
	seedsEach = 1_000
)

// soaked are the components, in the order in which a seed chooses them.
var soaked = []string{"FencedOutputs", "FencedState", "pipe"}

// Pieces are all of them. targets are the fuzz targets of the repository.
func Pieces(targets []Target) []Piece {
	return slices.Concat(crashSteps(), perVersion(), schedules(), soaks(), fuzzes(targets))
}

// crashSteps are those under every protocol on the first version, and under the default on the others.
func crashSteps() (out []Piece) {
	for i, version := range versions {
		for _, protocol := range []string{"cooperative", "eager", "server-side"} {
			if i > 0 && protocol != "cooperative" {
				continue
			}
			out = append(out, Piece{
				Name: fmt.Sprintf("crash-steps/%s/%s", version, protocol),
				Env: []string{
					"HOLDFAST_KAFKA_VERSION=" + version, "HOLDFAST_CRASH_PROTOCOL=" + protocol, "HOLDFAST_CRASH_STEPS=all",
					fmt.Sprintf("HOLDFAST_CRASH_RESULTS=results/crash-steps/%s-%s.md", version, protocol),
				},
				Args: test("./internal/crash", "^TestKafkaCrashSteps$", "60m"),
				Says: regexp.MustCompile(`crash steps: (tested .*)`),
			})
		}
	}
	return out
}

// perVersion are the runs on real Kafka that every version has.
func perVersion() (out []Piece) {
	for _, version := range versions {
		kafka := "HOLDFAST_KAFKA_VERSION=" + version
		out = append(out,
			Piece{
				Name: "unknown-outcomes/" + version, Env: []string{kafka, "HOLDFAST_NIGHTLY=1"},
				Args: test("./internal/crash", "^TestKafkaUnknownOutcome", "60m"),
			},
			Piece{
				Name: "matrix/" + version, Env: []string{kafka, "HOLDFAST_MATRIX=all", "HOLDFAST_MATRIX_RESULTS=results/matrix/" + version + ".md"},
				Args: test("./internal/matrix", "^TestKafkaMatrix$", "90m"),
				Says: regexp.MustCompile(`(\d+ of \d+ cells passed)`),
			},
			Piece{
				Name: "accidents/" + version, Env: []string{kafka, "HOLDFAST_NIGHTLY=1"},
				Args: append(test("./internal/accidents", "^TestKafka", "60m"), "-parallel=4"),
			},
			Piece{
				Name: "limits/" + version, Env: []string{kafka, "HOLDFAST_NIGHTLY=1"},
				Args: test("./internal/limits", ".", "60m"),
			},
			Piece{
				Name: "acceptance/" + version, Env: []string{kafka},
				Args: []string{"go", "run", "./internal/acceptance/run"},
				Says: regexp.MustCompile(`(\d+/\d+ acceptance tests passed)`),
			},
		)
	}
	return out
}

func schedules() (out []Piece) {
	for first := 1; first <= seeds; first += seedsEach {
		last := first + seedsEach - 1
		out = append(out, Piece{
			Name: fmt.Sprintf("seeds/%d-%d", first, last),
			Args: append([]string{"go", "test", "-count=1", "-tags=synctests", "-timeout=120m", "-run=TestSeeds$", "-v", "./internal/virtual"},
				fmt.Sprintf("-from=%d", first), fmt.Sprintf("-seeds=%d", seedsEach)),
			Says: regexp.MustCompile(`(\d+ runs in [^\n]*)`),
		})
	}
	return out
}

// soaks are an hour of each component. The seed is the component's number, and chooses the blows as well.
func soaks() (out []Piece) {
	for i, component := range soaked {
		out = append(out, Piece{
			Name: "soak/" + component, Env: []string{"HOLDFAST_SOAK=1h", fmt.Sprintf("HOLDFAST_SOAK_SEED=%d", i)},
			Args: test("./internal/soak", "^TestKafkaSoak$", "0"),
			Says: regexp.MustCompile(`soak: (.* records, .*)`),
		})
	}
	return out
}

func fuzzes(targets []Target) (out []Piece) {
	for _, t := range targets {
		out = append(out, Piece{
			Name: fmt.Sprintf("fuzz/%s/%s", t.Dir, t.Name), Dir: t.Dir,
			Args: []string{"go", "test", "-C", t.Dir, "-run=^$", "-fuzz=^" + t.Name + "$", "-fuzztime=10m", "-fuzzminimizetime=10s", "-parallel=2", "."},
			Says: regexp.MustCompile(`fuzz: (elapsed: 10m[^\n]*)`),
		})
	}
	return out
}

func test(dir, pattern, timeout string) []string {
	return []string{"go", "test", "-count=1", "-v", "-timeout=" + timeout, "-run=" + pattern, dir}
}
