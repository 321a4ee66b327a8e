// Package tail shows the records of a topic with what became of their transactions.
package tail

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// Config says what to show and how.
type Config struct {
	Client     *kgo.Client
	Topic      string
	Partitions []int32 // in the order in which they are shown

	From, To  Place
	Committed bool // show what a reader under read_committed sees, else everything
	Show      Show
	Limit     int // records and markers to show; 0: no limit
	Follow    bool

	Keys, Values Format
	Cut          int // bytes of a key or value in text; 0: all of them
	JSON         bool
	Color        bool

	Out      io.Writer         // gets the records
	Note     func(line string) // gets explanations; calls do not overlap
	Patience time.Duration     // how long brokers may fail to answer; a follower waits for ever
}

// Show is the set of statuses that are shown.
type Show map[wire.Status]bool

// showWords are the words of ParseShow in the order in which they are told.
var showWords = []string{"committed", "aborted", "open", "plain", "markers"}

var showStatuses = map[string][]wire.Status{
	"committed": {wire.StatusCommitted},
	"aborted":   {wire.StatusAborted},
	"open":      {wire.StatusOpen},
	"plain":     {wire.StatusPlain},
	"markers":   {wire.StatusCommitMarker, wire.StatusAbortMarker, wire.StatusControl},
}

// ParseShow reads the words for what to show. Without words it is everything, of a reader under
// read_committed what it is given. It is never given aborted and open records, which are left out.
func ParseShow(words []string, committed bool) (Show, error) {
	if len(words) == 0 {
		words = showWords
		if committed {
			words = []string{"committed", "plain"}
		}
	}
	show := Show{}
	for _, w := range words {
		statuses, ok := showStatuses[w]
		if !ok {
			return nil, fmt.Errorf("%q is none of %s", w, strings.Join(showWords, ", "))
		}
		for _, s := range statuses {
			show[s] = true
		}
	}
	if committed {
		delete(show, wire.StatusAborted)
		delete(show, wire.StatusOpen)
	}
	if len(show) == 0 {
		return nil, fmt.Errorf("a reader under read_committed is given no %s records", strings.Join(words, " or "))
	}
	return show, nil
}

// Format says how keys or values are shown.
type Format string

// The formats. Text is quoted and escaped, so that no byte of a record acts on a terminal.
const (
	Text Format = "text"
	Hex  Format = "hex"
	None Format = "none"
)

// ParseFormat reads a format.
func ParseFormat(text string) (Format, error) {
	switch f := Format(text); f {
	case Text, Hex, None:
		return f, nil
	}
	return "", fmt.Errorf("%q is none of %s, %s, %s", text, Text, Hex, None)
}
