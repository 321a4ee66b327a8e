package kafka

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseProperties(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want string // key=value, quoted, in order
	}{
		"empty":                       {"", ``},
		"separators":                  {"a=1\nb:2\nc 3\nd\t=\t4\ne  :  5\nf", `"a"="1" "b"="2" "c"="3" "d"="4" "e"="5" "f"=""`},
		"only one separator is taken": {"a==1\nb=:2\nc : = 3", `"a"="=1" "b"=":2" "c"="= 3"`},
		"comments":                    {"# x=1\n  ! y=2\n\n \t\nz=3 # not a comment", `"z"="3 # not a comment"`},
		"comment does not go on":      {"# a \\\nb=1", `"b"="1"`},
		"continuation":                {"a=1,\\\n   2,\\\n\t3\nb=4", `"a"="1,2,3" "b"="4"`},
		"continuation with a hash":    {"a=1\\\n#2", `"a"="1#2"`},
		"continuation over nothing":   {"a=1\\\n\nb=2", `"a"="1" "b"="2"`},
		"continuation in a key":       {"a\\\n  b=1", `"ab"="1"`},
		"backslash alone":             {"\\\n# a=1\n\\\n\nb=2", `"b"="2"`},
		"escaped backslash at end":    {`a=1\\` + "\nb=2", `"a"="1\\" "b"="2"`},
		"backslash at the very end":   {`a=1\`, `"a"="1"`},
		"escapes":                     {`a\ b\=\:c=\t\n\r\f\\\"\z`, `"a b=:c"="\t\n\r\f\\\"z"`},
		"unicode":                     {`\u0061=\u00e9\uD83D\uDE00x`, `"a"="é😀x"`},
		"half of a pair":              {`a=\ud83dx`, `"a"="�x"`},
		"trailing blanks are kept":    {"a=1  ", `"a"="1  "`},
		"line ends":                   {"a=1\r\nb=2\rc=3", `"a"="1" "b"="2" "c"="3"`},
		"continuation and CRLF":       {"a=1\\\r\n 2", `"a"="12"`},
		"last one wins":               {"a=1\nb=2\na=3", `"a"="3" "b"="2"`},
		"empty key":                   {"=1", `""="1"`},
		"utf-8":                       {"a=é", `"a"="é"`},
		"latin-1":                     {"a=\xe9", `"a"="é"`},
		"byte order mark":             {"\ufeffa=1", `"a"="1"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			props, err := parseProperties([]byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range props {
				got = append(got, fmt.Sprintf("%q=%q", p.key, p.value))
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Fatalf("got %s, want %s", s, tc.want)
			}
		})
	}
	for _, text := range []string{`x=1` + "\n" + `secret=\u12`, `x=1` + "\n" + `secret=\u12G4`, "x=1\nsecret=\\u"} {
		if _, err := parseProperties([]byte(text)); err == nil || !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), "secret=") {
			t.Errorf("%q: %v, want an error of line 2 without its text", text, err)
		}
	}
}

func TestParseJAAS(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text, want, err string
	}{
		"usual":         {text: `a.b.Plain required username="u" password="p w;=";`, want: `a.b.Plain map[password:p w;= username:u]`},
		"no blanks":     {text: `P required a="1"b='2';`, want: `P map[a:1 b:2]`},
		"unquoted":      {text: "P\trequired\n a=b-c_d.e ;", want: `P map[a:b-c_d.e]`},
		"escapes":       {text: `P required a="\"\\\n\101\7x\4000\z";`, want: "P map[a:\"\\\nA\ax 00z]"},
		"other quote":   {text: `P required a="it's" b='a "b"';`, want: `P map[a:it's b:a "b"]`},
		"comments":      {text: "P // x;\nrequired /* a=b; */ a=1;", want: `P map[a:1]`},
		"no options":    {text: `P required;`, want: `P map[]`},
		"empty":         {text: ``, err: "complete"},
		"no semicolon":  {text: `P required a="hunter2"`, err: "`;`"},
		"no flag":       {text: `P username="hunter2" password="x";`, err: "`required`"},
		"two modules":   {text: `P required a=1; Q required b=2;`, err: "more than one"},
		"no value":      {text: `P required a= ;`, err: "key="},
		"no equals":     {text: `P required a "hunter2";`, err: "key="},
		"open quote":    {text: `P required a="hunter2;`, err: "no end"},
		"quote at line": {text: "P required a=\"hunter2\n\";", err: "no end"},
		"open comment":  {text: `P required /* hunter2`, err: "no end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseJAAS(tc.text)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "hunter2") {
					t.Fatalf("error %v, want one with %q and no secret", err, tc.err)
				}
				return
			}
			if s := fmt.Sprint(got.module, " ", got.options); err != nil || s != tc.want {
				t.Fatalf("got %q, %v, want %q", s, err, tc.want)
			}
		})
	}
}

// escapeProperty writes text so that parseProperties reads it back, as Properties.store does.
func escapeProperty(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case strings.ContainsRune("\\ \t\f=:#!", r):
			b.WriteByte('\\')
			switch r {
			case '\t':
				b.WriteByte('t')
			case '\f':
				b.WriteByte('f')
			default:
				b.WriteRune(r)
			}
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// FuzzProperties checks that no input makes the parser fail other than by an error, and that what it
// reads comes back when it is written and read again.
func FuzzProperties(f *testing.F) {
	for _, s := range []string{"a=1", "a\\\n b : \\u0041\\", "# c\n!d\n\xe9=\xff", "a=\\ud83d\\ude00", "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		props, err := parseProperties(text)
		if err != nil {
			return
		}
		var again strings.Builder
		seen := map[string]bool{}
		for _, p := range props {
			if seen[p.key] || p.line < 1 || !utf8.ValidString(p.key) || !utf8.ValidString(p.value) {
				t.Fatalf("property %+v of %q", p, text)
			}
			seen[p.key] = true
			fmt.Fprintf(&again, "%s=%s\n", escapeProperty(p.key), escapeProperty(p.value))
		}
		back, err := parseProperties([]byte(again.String()))
		if err != nil || len(back) != len(props) {
			t.Fatalf("%q came back as %v, %v, want %v", again.String(), back, err, props)
		}
		for i := range back {
			if back[i].key != props[i].key || back[i].value != props[i].value {
				t.Fatalf("%+v came back as %+v", props[i], back[i])
			}
		}
		// The whole reader has to live with it as well. Files and networks are not touched: no fuzzed
		// text names one that exists.
		if _, faults := fromProperties(text); len(faults) > 0 {
			for _, f := range faults {
				_ = f.Error()
			}
		}
	})
}

func FuzzJAAS(f *testing.F) {
	f.Add(`P required a="b\101" c='d';`)
	f.Add(`P required /* */ // x`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseJAAS(text)
		if err == nil && (got.module == "" && text[0] != '"' && text[0] != '\'' && strings.TrimSpace(text)[0] > ' ' && got.options == nil) {
			t.Fatalf("%q was read as %+v", text, got)
		}
	})
}
