package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handmade builds a log from words: "plain", "7" a record of producer 7 in a transaction, "7+" and "7-"
// the markers that commit and abort it, "7?" a control record of another kind, "." an offset that
// compaction has removed.
func handmade(words string) (log []*kgo.Record) {
	for offset, word := range strings.Fields(words) {
		r := &kgo.Record{Offset: int64(offset), ProducerID: -1, ProducerEpoch: -1, Key: []byte("k")}
		var by int64
		if n, _ := fmt.Sscanf(word, "%d", &by); n == 1 {
			r.ProducerID, r.ProducerEpoch = by, 0
			r.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true, Control: strings.ContainsAny(word, "+-?")})
		}
		if r.Attrs.IsControl() {
			kind := map[byte]kmsg.ControlRecordKeyType{'-': kmsg.ControlRecordKeyTypeAbort,
				'+': kmsg.ControlRecordKeyTypeCommit, '?': kmsg.ControlRecordKeyTypeSnapshotHeader}[word[len(word)-1]]
			key, value := kmsg.ControlRecordKey{Type: kind}, kmsg.EndTxnMarker{CoordinatorEpoch: 9}
			r.Key, r.Value = key.AppendTo(nil), value.AppendTo(nil)
		}
		if word != "." {
			log = append(log, r)
		}
	}
	return log
}

// letters shortens statuses: p, c, a, o for records, + and - for markers, ? for other control records.
func letters(log []*kgo.Record, v verdicts) string {
	var b strings.Builder
	for _, r := range log {
		switch e := classify(r, v, true); e.Status {
		case StatusCommitMarker:
			b.WriteByte('+')
		case StatusAbortMarker:
			b.WriteByte('-')
		case StatusControl:
			b.WriteByte('?')
		default:
			b.WriteByte(string(e.Status)[0])
		}
	}
	return b.String()
}

func TestMarkersDecideWhatIsBeforeThem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ log, want string }{
		"plain":                    {"plain plain", "pp"},
		"committed":                {"1 1 1+", "cc+"},
		"aborted":                  {"1 1 1-", "aa-"},
		"open":                     {"1 1", "oo"},
		"one after the other":      {"1 1- 1 1+ 1", "a-c+o"},
		"interleaved":              {"1 2 plain 1 2- 1+ 2 1 1-", "capc-+oa-"},
		"a marker of no record":    {"1- 1 1+ 1- 1", "-c+-o"},
		"markers of others":        {"1 2+ 3-", "o+-"},
		"another control record":   {"1 1? 1+", "c?+"},
		"the marker at the start":  {"1+ plain", "+p"},
		"offsets that are missing": {"1 . 1- . 1 1+", "a-c+"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := handmade(tc.log)
			m := newMarkers(100)
			for _, r := range log {
				m.gather(r)
			}
			if got := letters(log, m); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// Whatever number of markers fits in memory, looking as far as they tell and then again from there
// gives what all markers together give.
func TestMarkersInBoundedMemory(t *testing.T) {
	t.Parallel()
	log := handmade("1 2 1- 3 1 2+ 2 1+ 1 1- plain 4 1 2- 1+ 3+ 2")
	all := newMarkers(100)
	for _, r := range log {
		all.gather(r)
	}
	want := letters(log, all)
	hw := int64(len(log))
	for limit := 1; limit < 10; limit++ {
		got, most := "", 0
		for from := int64(0); from < hw; {
			m := newMarkers(limit)
			for _, r := range log[from:] {
				m.gather(r)
			}
			most = max(most, m.count-limit)
			to := m.end(hw)
			if to <= from {
				t.Fatalf("limit %d: no progress at %d", limit, from)
			}
			got += letters(log[from:to], m)
			from = to
		}
		if got != want {
			t.Errorf("limit %d: got %s, want %s", limit, got, want)
		}
		if most > 3 { // producers 1, 2 and 3 have markers
			t.Errorf("limit %d: %d markers past it, want at most one for each producer", limit, most)
		}
	}
}

func TestMarkersAreFoundAlthoughRecordsWentAway(t *testing.T) {
	t.Parallel()
	log := handmade("1 1- 1 1+")
	m := newMarkers(100)
	for _, r := range log {
		m.gather(r)
	}
	if got := letters(log[2:], m); got != "c+" { // the log's start was moved past the first marker
		t.Errorf("got %s, want c+", got)
	}
}

func TestAbortedListDecidesBelowTheStableEnd(t *testing.T) {
	t.Parallel()
	type aborted = kmsg.FetchResponseTopicPartitionAbortedTransaction
	of := func(pairs ...int64) (list []aborted) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, aborted{ProducerID: pairs[i], FirstOffset: pairs[i+1]})
		}
		return list
	}
	for name, tc := range map[string]struct {
		log  string
		list []aborted
		want string
	}{
		"nothing aborted":               {"1 1+ plain", nil, "c+p"},
		"committed, then aborted":       {"1 1+ 1 1- 1 1+", of(1, 2), "c+a-c+"},
		"two, not in order":             {"1 1- 1 1+ 1 1-", of(1, 4, 1, 0), "a-c+a-"},
		"interleaved":                   {"1 2 1 2- 1+ 2 2+", of(2, 1), "cac-+c+"},
		"began before the fetch":        {"1 1- 1 1+", of(1, -5), "a-c+"},
		"its marker after the fetch":    {"plain 1 1", of(1, 1), "paa"},
		"its commit marker compacted":   {"1 . 2 2-", of(2, 2), "ca-"},
		"an abort marker of no record":  {"1- 1 1-", of(1, 1), "-a-"},
		"only an abort marker ends it":  {"1 1+ 1 1- 1 1+", of(1, 0), "a+a-c+"},
		"another's marker does not":     {"2 1- 2 2-", of(2, 0), "a-a-"},
		"the aborted records compacted": {". . 1- 1 1+", nil, "-c+"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := letters(handmade(tc.log), newAbortedList(tc.list)); got != tc.want {
				t.Errorf("I5: got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestEntryTellsWhoReadsIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status                 Status
		stable                 bool
		committed, uncommitted bool
	}{
		{StatusPlain, true, true, true},
		{StatusPlain, false, false, true},
		{StatusCommitted, true, true, true},
		{StatusCommitted, false, false, true},
		{StatusAborted, true, false, true},
		{StatusOpen, false, false, true},
		{StatusCommitMarker, true, false, false},
		{StatusAbortMarker, true, false, false},
		{StatusControl, true, false, false},
	} {
		e := Entry{Status: tc.status, Stable: tc.stable}
		if e.ReadCommitted() != tc.committed || e.ReadUncommitted() != tc.uncommitted {
			t.Errorf("%s, stable %v: read_committed %v, read_uncommitted %v", tc.status, tc.stable, e.ReadCommitted(), e.ReadUncommitted())
		}
	}
}

func TestControlRecords(t *testing.T) {
	t.Parallel()
	log := handmade("1+ 1- 1?")
	for i, want := range []struct {
		status Status
		epoch  int32
	}{{StatusCommitMarker, 9}, {StatusAbortMarker, 9}, {StatusControl, -1}} {
		if status, epoch := control(log[i]); status != want.status || epoch != want.epoch {
			t.Errorf("record %d: %s of epoch %d, want %s of %d", i, status, epoch, want.status, want.epoch)
		}
	}
	log[0].Value = nil
	if status, _ := control(log[0]); status != StatusControl {
		t.Errorf("a marker without a value is %s", status)
	}
}
