package kafkatest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pinned are the SHA-256 sums of every jar that is run, a line "sum  version/set/jar" each. What Maven answers
// runs as this user: a repository, a mirror or a proxy that answers something else is noticed before that.
// Of a version that is added, `cd CACHE/VERSION && sha256sum lib/*.jar streams/*.jar` prints them.
//
//go:embed jars.sha256
var pinned string

// unpinned is the variable that lets versions run whose sums are not known.
const unpinned = "HOLDFAST_KAFKA_UNPINNED"

// sums returns the sums of a set of a version by the name of the jar.
func sums(list, version, set string) map[string]string {
	known := map[string]string{}
	for line := range strings.Lines(list) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if dir, jar := path.Split(name); dir == version+"/"+set+"/" {
			known[jar] = sum
		}
	}
	return known
}

// verify compares the jars of a directory with what is pinned.
func verify(list, version, set, dir string) error {
	known := sums(list, version, set)
	if len(known) == 0 {
		if os.Getenv(unpinned) != "" {
			return nil
		}
		return fmt.Errorf("kafkatest: the checksums of Kafka %s (%s) are not known: %s=1 takes what Maven answers", version, set, unpinned)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var wrong []string
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(raw)
		if known[f.Name()] != hex.EncodeToString(sum[:]) {
			wrong = append(wrong, fmt.Sprintf("%s has the SHA-256 %x", f.Name(), sum))
		}
		delete(known, f.Name())
	}
	for jar := range known {
		wrong = append(wrong, jar+" is missing")
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return errors.New("kafkatest: Maven's jars are not those of jars.sha256, and are not run: " + strings.Join(wrong, ", "))
}
