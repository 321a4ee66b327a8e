package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/letters"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/visible"
	"github.com/holdfast-go/holdfast/stream"
)

// shortText is how much of a reason a table shows.
const shortText = 72

// count names a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func short(text string) string {
	text = visible.Text(text)
	if utf8.RuneCountInString(text) <= shortText {
		return text
	}
	return string([]rune(text)[:shortText-1]) + "…"
}

func (a *app) printRows(topic string, rows []letters.Row) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintf(a.stdout, "%s has no such letters.\n", topic)
		return err
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LETTER\tTIMESTAMP\tORIGIN\tFAILED\tFAMILY\tREASON")
	for _, r := range rows {
		origin, failed, reason := "-", "-", r.Reason
		if r.Origin != nil {
			origin = visible.Text(r.Origin.String())
		}
		if r.FailedAt != nil {
			origin += ", failed at " + visible.Text(r.FailedAt.String())
		}
		if r.Attempt > 0 {
			failed = fmt.Sprintf("%d×", r.Attempt)
		}
		if r.Fault != "" {
			reason = r.Fault
		}
		if r.Repeats > 0 {
			reason += fmt.Sprintf(" (and %s)", count(r.Repeats, "letter"))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Place, r.Format(time.RFC3339), origin, failed, r.Family, short(reason))
	}
	return table.Flush()
}

// bytesJSON is a key, a value or a header's value: null, or its bytes, and as text where it is UTF-8.
func bytesJSON(b []byte) any {
	if b == nil {
		return nil
	}
	out := map[string]any{"base64": base64.StdEncoding.EncodeToString(b)}
	if utf8.Valid(b) {
		out["text"] = string(b)
	}
	return out
}

func (a *app) printLetter(l dlq.Letter) error {
	row := letters.RowOf(l)
	if a.json {
		headers := []any{}
		for _, h := range l.Record.Headers {
			headers = append(headers, map[string]any{"key": h.Key, "value": bytesJSON(h.Value)})
		}
		return json.NewEncoder(a.stdout).Encode(struct {
			Topic string `json:"topic"`
			letters.Row
			Headers []any `json:"headers"`
			Key     any   `json:"key"`
			Value   any   `json:"value"`
		}{l.Record.Topic, row, headers, bytesJSON(l.Record.Key), bytesJSON(l.Record.Value)})
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, visible.Text(value))
		}
	}
	line("Letter", l.Record.Topic+" "+row.Place.String())
	line("Family", row.Family)
	line("Fault", row.Fault)
	if row.Origin != nil {
		line("Origin", row.Origin.String())
		line("Topic id", row.Origin.TopicID)
	}
	if row.FailedAt != nil {
		line("Failed at", row.FailedAt.String())
	}
	line("Timestamp", row.Format(time.RFC3339Nano))
	if row.Attempt > 0 {
		line("Failed", fmt.Sprintf("%d×", row.Attempt))
	}
	line("Changed", row.Changed)
	line("Reason", row.Reason)
	line("Class", row.Class)
	line("Stage", row.Stage)
	line("Group", row.Group)
	line("Version", row.AppVersion)
	if err := table.Flush(); err != nil {
		return err
	}
	return printPayload(a.stdout, l.Record)
}

func printPayload(w io.Writer, r stream.Record) error {
	if len(r.Headers) > 0 {
		fmt.Fprintln(w, "\nHeaders")
	}
	for _, h := range r.Headers {
		fmt.Fprintf(w, "  %s = %s\n", visible.Text(h.Key), inline(h.Value))
	}
	fmt.Fprintf(w, "\nKey (%s)\n", size(r.Key))
	printBytes(w, r.Key)
	fmt.Fprintf(w, "\nValue (%s)\n", size(r.Value))
	return printBytes(w, r.Value)
}

func size(b []byte) string {
	if b == nil {
		return "null"
	}
	return count(len(b), "byte")
}

// textual reports whether b reads as text: UTF-8 that needs no control characters but line breaks and tabs.
func textual(b []byte) bool {
	text := strings.ReplaceAll(string(b), "\r\n", "\n")
	return visible.Lines(text) == text
}

// inline is a header's value on one line.
func inline(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case textual(b):
		return visible.Text(string(b))
	}
	return "0x" + hex.EncodeToString(b)
}

// printBytes prints a payload as text where it is text, and as a dump elsewhere.
func printBytes(w io.Writer, b []byte) error {
	text := hex.Dump(b)
	if textual(b) {
		text = string(b)
	}
	if text = strings.TrimRight(text, "\r\n"); text == "" {
		return nil
	}
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintf(w, "  %s\n", strings.TrimRight(line, "\r\n")); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printReplay(topic string, executed bool, p *letters.Plan, s letters.Sent, failed error) error {
	w := a.stdout
	if len(p.Items) > 0 {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "LETTER\tORIGIN\tTO\tATTEMPT\tREASON")
		for _, i := range p.Items {
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", i.Letter, visible.Text(i.Origin.String()), visible.Text(i.To.String()), i.Attempt, short(i.Reason))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if p.Repeats > 0 {
		fmt.Fprintf(w, "%s left out: their records have another one (--dedup=false sends them too).\n", count(p.Repeats, "letter"))
	}
	for _, r := range p.Unreadable {
		fmt.Fprintf(w, "Letter %s cannot be replayed: %s\n", r.Place, short(r.Fault))
	}
	for _, r := range append(slices.Clone(p.Refused), s.Refused...) {
		fmt.Fprintf(w, "Letter %s is set aside: %s\n", r.Letter, visible.Text(r.Why))
	}
	switch {
	case !executed:
		fmt.Fprintf(w, "Would send %s of %s. Nothing was sent: --execute sends them.\n", count(len(p.Items), "letter"), topic)
	case failed == nil:
		fmt.Fprintf(w, "Sent %s of %s.\n", count(s.Acknowledged, "letter"), topic)
		for _, partition := range slices.Sorted(maps.Keys(s.Later)) {
			fmt.Fprintf(w, "Letters behind these: --partition %d --from %d\n", partition, s.Later[partition])
		}
	default:
		fmt.Fprintf(w, "Sent %s of %s. %d may be written or not, %d were not sent.\n", count(s.Acknowledged, "letter"), topic, s.Doubtful, s.Untried)
	}
	for _, partition := range slices.Sorted(maps.Keys(s.Next)) {
		fmt.Fprintf(w, "Go on with --partition %d --from %d\n", partition, s.Next[partition])
	}
	return nil
}

func (a *app) encodeReplay(topic string, executed bool, p *letters.Plan, s letters.Sent, failed error) error {
	out := map[string]any{
		"topic": topic, "executed": executed, "letters": append([]letters.Item{}, p.Items...), "repeats": p.Repeats,
		"unreadable": append([]letters.Row{}, p.Unreadable...), "refused": append(append([]letters.Refused{}, p.Refused...), s.Refused...), "sent": s.Acknowledged, "doubtful": s.Doubtful, "not_sent": len(p.Items),
	}
	if executed {
		out["not_sent"] = s.Untried
	}
	switch {
	case failed != nil:
		out["error"], out["next"] = failed.Error(), s.Next
	case executed:
		out["later"] = s.Later
	}
	return json.NewEncoder(a.stdout).Encode(out)
}
