package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
)

func clients(t *testing.T, addr string) func(...kgo.Opt) *kgo.Client {
	return func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kafka.Config{Brokers: []string{addr}}.Client(opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
}

// The embedded broker is what people try the command on first.
func TestTailOnTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	addr, _ := startBroker(t, "--topic", "validated:1")
	client := clients(t, addr)
	h := transactions{t: t, topic: "validated", log: wire.Log{Client: client(), Topic: "validated"}}
	h.history(client)
	checkHistory(t, addr, h.topic)
}

func TestTailWhereTransactionsChangeNothing(t *testing.T) {
	t.Parallel()
	addr, _ := startBroker(t, "--topic", "plain:2", "--topic", "committed:1")
	client := clients(t, addr)
	plain := transactions{t: t, topic: "plain"}
	plain.put(client(kgo.RecordPartitioner(kgo.ManualPartitioner())), "a", "b", "c")
	h := transactions{t: t, topic: "committed", log: wire.Log{Client: client(), Topic: "committed"}}
	w := client(kgo.TransactionalID("w"))
	h.begin(w, "a")
	h.end(w, kgo.TryCommit, 2)
	for _, c := range []struct{ topic, says string }{
		{"plain", "1 of 2 partitions had nothing in this range"},
		{"plain", "No transaction wrote here: read_committed and read_uncommitted return the same records"},
		{"committed", "Each transaction here was committed: read_committed and read_uncommitted return the same 1 record."},
	} {
		var outputs []string
		for _, level := range []string{"read_committed", "read_uncommitted"} {
			got := command(t.Context(), "tail", c.topic, "--brokers", addr, "--isolation", level, "--show", "plain,committed")
			if said := strings.Join(strings.Fields(got.stderr), " "); got.code != exitOK || !strings.Contains(said, c.says) {
				t.Errorf("%s, %s: exit code %d, standard error lacks %q:\n%s", c.topic, level, got.code, c.says, got.stderr)
			}
			outputs = append(outputs, got.stdout)
		}
		if outputs[0] != outputs[1] || strings.Count(outputs[0], "\n") < 2 {
			t.Errorf("%s: the levels show different records:\n%s\n%s", c.topic, outputs[0], outputs[1])
		}
	}
}

// A limit can end the view before other partitions were looked at. Nothing is said about those, but how
// to see them: who follows it has seen every record.
func TestTailLimitTellsWhatIsUnread(t *testing.T) {
	t.Parallel()
	addr, _ := startBroker(t, "--topic", "wide:8")
	cl := clients(t, addr)(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range int32(7) { // partition 7 stays empty
		for _, v := range []string{"first", "second"} {
			r := &kgo.Record{Topic: "wide", Partition: p, Value: fmt.Append(nil, v, p)}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := command(t.Context(), "tail", "wide", "--brokers", addr, "--limit", "1")
	said := strings.Join(strings.Fields(got.stderr), " ")
	for _, want := range []string{
		"Stopped by --limit; go on with --partition 0 --from 1.",
		"6 of 8 partitions not read yet when --limit ended the view. Go on with one call each: --partition 1 --from 0, ",
		"--partition 5 --from 0, and likewise for the partition 6.",
		"1 of 8 partitions had nothing in this range.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("standard error lacks %q:\n%s", want, got.stderr)
		}
	}
	seen := got.stdout
	for _, m := range regexp.MustCompile(`--partition (\d) --from (\d)`).FindAllStringSubmatch(said, -1) {
		seen += command(t.Context(), "tail", "wide", "--brokers", addr, "--partition", m[1], "--from", m[2]).stdout
	}
	for p := range 6 {
		for _, v := range []string{"first", "second"} {
			if v = fmt.Sprintf("%q", v+fmt.Sprint(p)); strings.Count(seen, v) != 1 {
				t.Errorf("%s is shown %d times", v, strings.Count(seen, v))
			}
		}
	}
	got = command(t.Context(), "tail", "wide", "--brokers", addr, "--limit", "14")
	if strings.Contains(got.stderr, "not read yet") || strings.Contains(got.stderr, "go on with") {
		t.Errorf("the limit was the number of records, and something is said to be left:\n%s", got.stderr)
	}
}

func TestTailRefusesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	addr, _ := startBroker(t, "--topic", "orders:1", "--topic", "many:3")
	client := clients(t, addr)
	transactions{t: t, topic: "orders"}.put(client(), "a", "b", "c")
	var to kadm.Offsets
	to.AddOffset("orders", 0, 1, -1)
	if _, err := kadm.NewClient(client()).DeleteRecords(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"no topic", []string{}, exitUsage, []string{"name one topic", "Try: holdfast tail TOPIC"}},
		{"missing topic", []string{"nowhere"}, exitUsage, []string{"nowhere", "does not exist", "Try: ", "--list"}},
		{"missing partition", []string{"orders", "--partition", "1"}, exitUsage, []string{"orders has 1 partitions", "Try: "}},
		{"below the start", []string{"orders", "--from", "0"}, exitUsage, []string{"--from", "offset 0 is out of range", "from 1 up to its end at 3", "Try: --from start"}},
		{"past the end", []string{"orders", "--from", "4"}, exitUsage, []string{"offset 4 is out of range"}},
		{"end past the end", []string{"orders", "--to", "9"}, exitUsage, []string{"--to", "offset 9 is out of range"}},
		{"ends before it begins", []string{"orders", "--from", "3", "--to", "2"}, exitUsage, []string{"--to", "offset 2 is before the start of the view at 3"}},
		{"an offset in many partitions", []string{"many", "--from", "0"}, exitUsage, []string{"3 partitions", "Try: --partition"}},
		{"no place", []string{"orders", "--from", "yesterday"}, exitUsage, []string{`"yesterday"`, "Try: --from start"}},
		{"no end", []string{"orders", "--to", "start"}, exitUsage, []string{`"start"`, "Try: --to end"}},
		{"no level", []string{"orders", "--isolation", "serializable"}, exitUsage, []string{"serializable", "Try: --isolation read_committed"}},
		{"no status", []string{"orders", "--show", "lost"}, exitUsage, []string{`"lost"`, "committed, aborted, open, plain, markers"}},
		{"a status that the level hides", []string{"orders", "--isolation", "read_committed", "--show", "aborted,open"}, exitUsage,
			[]string{"given no aborted or open records", "read_uncommitted"}},
		{"no format", []string{"orders", "--values", "xml"}, exitUsage, []string{`"xml"`, "Try: --values hex"}},
		{"no number", []string{"orders", "--limit", "-1"}, exitUsage, []string{"--limit", "Try: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), append([]string{"tail", "--brokers", addr}, c.args...)...)
			if got.code != c.code || got.stdout != "" {
				t.Errorf("exit code %d, want %d; printed %q", got.code, c.code, got.stdout)
			}
			for _, want := range c.says {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("standard error lacks %q:\n%s", want, got.stderr)
				}
			}
		})
	}
}

func TestTailFormats(t *testing.T) {
	t.Parallel()
	addr, _ := startBroker(t, "--topic", "bytes:1")
	cl := clients(t, addr)()
	long := strings.Repeat("ä", 200)
	for _, r := range []*kgo.Record{
		{Topic: "bytes", Key: nil, Value: []byte{0xff, 0}},
		{Topic: "bytes", Key: []byte("k"), Value: nil},
		{Topic: "bytes", Key: []byte{}, Value: []byte(long), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}},
	} {
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"text", nil, []string{`null  "\xff\x00"`, `"k"  null`, strings.Repeat("ä", 100) + `"… (400 bytes)`}},
		{"all of a value", []string{"--cut", "0"}, []string{long}},
		{"hex", []string{"--keys", "none", "--values", "hex", "--cut", "0"}, []string{"  0xff00\n", "  null\n"}},
		{"JSON", []string{"--json"}, []string{`"key":null,"value_base64":"/wA="`, `"key":"k","value":null`, `"key":"","value":"` + long + `","headers":[{"key":"h","value":"1"}]`}},
		{"JSON in hex", []string{"--json", "--values", "hex"}, []string{`"value_hex":"ff00"`, `"value":null`}},
		{"JSON without values", []string{"--json", "--values", "none"}, []string{`"key":"k"}`, `"key":""}`}},
	} {
		got := command(t.Context(), append([]string{"tail", "bytes", "--brokers", addr}, c.args...)...)
		for _, want := range c.says {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("%s: the output lacks %q:\n%s%s", c.name, want, got.stdout, got.stderr)
			}
		}
	}
}

// Without Describe on the transactional ids everything is shown but their names, and it is said why.
func TestKafkaTailPermissions(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{Secure: true, ACLs: true})
	h := transactions{t: t, topic: k.CreateTopic(t, kafkatest.UniqueName("acl"), 1, nil)}
	h.log = wire.Log{Client: k.Client(t), Topic: h.topic}
	h.history(func(o ...kgo.Opt) *kgo.Client { return k.Client(t, o...) })
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(k.Secure.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	tail := func() result {
		return command(t.Context(), "tail", h.topic, "--json", "--brokers", strings.Join(k.Secure.Addrs, ","), "--tls-ca", k.Secure.CAPath,
			"--sasl-mechanism", "SCRAM-SHA-256", "--sasl-user", k.Secure.User, "--sasl-password-file", password)
	}
	got := tail()
	if got.code != exitUnreachable || !strings.Contains(got.stderr, "Try: ") || !strings.Contains(got.stderr, "--operation Describe --topic "+h.topic) {
		t.Errorf("without any permission: exit code %d, %s", got.code, got.stderr)
	}
	if _, err := kadm.NewClient(k.Client(t)).CreateACLs(t.Context(), kadm.NewACLs().Topics(h.topic).ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpRead).Allow("User:"+k.Secure.User).AllowHosts()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); got.code != exitOK && time.Now().Before(deadline); {
		got = tail() // an ACL reaches the brokers some time after it was made
	}
	all := entries(t, got.stdout)
	if want := numbered(historyStatuses, func(int, string) bool { return true }); got.code != exitOK || statuses(all) != want {
		t.Fatalf("with Read on the topic: exit code %d\n%s\n got %s\nwant %s", got.code, got.stderr, statuses(all), want)
	}
	for _, e := range all {
		if e.TransactionalID != "" || e.ProducerID == nil {
			t.Errorf("offset %d: %+v", e.Offset, e)
		}
	}
	if said := strings.Join(strings.Fields(got.stderr), " "); strings.Count(said, "No coordinator shows a transactional id") != 1 ||
		!strings.Contains(said, "--operation Describe --transactional-id") {
		t.Errorf("standard error does not say once why names are missing:\n%s", got.stderr)
	}
}
