package kafka

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// property is one entry of a properties file.
type property struct {
	key, value string
	line       int // of its first character, from 1
}

// parseProperties reads the format of java.util.Properties: comments with # and !, "=", ":" or blanks
// between key and value, a backslash for escapes and at the end of a line that goes on in the next,
// and \uXXXX. Text that is not UTF-8 is taken to be ISO 8859-1, as Java does with all text. A key that
// comes again replaces the value before it. Errors name the line and never show a value.
func parseProperties(text []byte) ([]property, error) {
	src := string(text)
	if !utf8.Valid(text) {
		runes := make([]rune, len(text))
		for i, b := range text {
			runes[i] = rune(b)
		}
		src = string(runes)
	}
	src = strings.TrimPrefix(src, "\ufeff")
	var out []property
	at := map[string]int{}
	for _, l := range logicalLines(src) {
		p, err := parseProperty(l)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.line, err)
		}
		if i, again := at[p.key]; again {
			out[i] = p
			continue
		}
		at[p.key] = len(out)
		out = append(out, p)
	}
	return out, nil
}

type logicalLine struct {
	text string
	line int
}

// logicalLines joins lines that end in a backslash with those that follow, and leaves out blank lines
// and comments. A comment does not go on in the next line, and a continuation is never a comment.
func logicalLines(src string) []logicalLine {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	var out []logicalLine
	var open *logicalLine
	for i, l := range strings.Split(src, "\n") {
		l = strings.TrimLeft(l, blanks)
		if open == nil && (l == "" || l[0] == '#' || l[0] == '!') {
			continue
		}
		body, more := continued(l)
		if open == nil {
			open = &logicalLine{line: i + 1}
		}
		open.text += body
		switch {
		case open.text == "":
			open = nil // a backslash alone begins nothing: as in Java, the next line is judged afresh
		case !more:
			out, open = append(out, *open), nil
		}
	}
	if open != nil {
		out = append(out, *open)
	}
	return out
}

// blanks are what separates in a properties file.
const blanks = " \t\f"

// continued takes off the backslash that makes a line go on. An even number of them are escaped
// backslashes.
func continued(l string) (body string, more bool) {
	slashes := len(l) - len(strings.TrimRight(l, `\`))
	if slashes%2 == 1 {
		return l[:len(l)-1], true
	}
	return l, false
}

// parseProperty splits a logical line at the first separator that is not escaped.
func parseProperty(l logicalLine) (property, error) {
	end := len(l.text)
	for i := 0; i < len(l.text); i++ {
		if l.text[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte(blanks+"=:", l.text[i]) >= 0 {
			end = i
			break
		}
	}
	rest := strings.TrimLeft(l.text[end:], blanks)
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], blanks)
	}
	key, err := unescape(l.text[:end])
	if err != nil {
		return property{}, err
	}
	value, err := unescape(rest)
	if err != nil {
		return property{}, err
	}
	return property{key: key, value: value, line: l.line}, nil
}

// unescape resolves backslashes. Two \u of a surrogate pair are one character; half of a pair becomes
// the replacement character, for no UTF-8 text can hold it.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			r, used, err := unicodeEscape(s[i-1:])
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			i += used - 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// unicodeEscape reads \uXXXX, or two of them if they are a pair, at the start of s.
func unicodeEscape(s string) (r rune, used int, err error) {
	one, err := hex4(s)
	if err != nil {
		return 0, 0, err
	}
	if utf16.IsSurrogate(one) && len(s) >= 12 && s[6:8] == `\u` {
		two, err := hex4(s[6:])
		if err != nil {
			return 0, 0, err
		}
		if pair := utf16.DecodeRune(one, two); pair != utf8.RuneError {
			return pair, 12, nil
		}
	}
	return one, 6, nil
}

func hex4(s string) (rune, error) {
	if len(s) < 6 {
		return 0, fmt.Errorf(`\u needs four hexadecimal digits`)
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	if err != nil {
		return 0, fmt.Errorf(`\u needs four hexadecimal digits`)
	}
	return rune(n), nil
}
