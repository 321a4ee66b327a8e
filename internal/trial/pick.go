package trial

import "github.com/twmb/franz-go/pkg/kgo"

// Outputs is how many outputs a value has in a flow or a pipe.
func Outputs(value int) int { return fanout(value) }

// Persists reports whether a flow writes the state with its next commit, at once.
func Persists(value int) bool { return persists(value) }

// Deletes reports whether the key of a flow ends with the value.
func Deletes(value int) bool { return deletes(value) }

// SendWhere is SendTo with the next n values that is accepts. Those between them are left out.
func (f *Field) SendWhere(partition int32, n int, is func(value int) bool) int64 {
	f.TB.Helper()
	f.mu.Lock()
	var rs []*kgo.Record
	for len(rs) < n {
		if !is(f.next) {
			f.next++
			continue
		}
		rs = append(rs, f.record(partition))
	}
	f.mu.Unlock()
	if err := f.produce(f.TB.Context(), rs); err != nil {
		f.TB.Fatal(err)
	}
	return rs[n-1].Offset
}
