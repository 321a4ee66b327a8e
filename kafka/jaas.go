package kafka

import (
	"errors"
	"fmt"
	"strings"
)

// jaas is one login module of sasl.jaas.config.
type jaas struct {
	module  string
	options map[string]string
}

// parseJAAS reads "Module flag key=value key="value";", the form that Kafka's clients read: one module
// and nothing after it. Errors never show an option's value.
func parseJAAS(text string) (jaas, error) {
	tokens, err := jaasTokens(text)
	if err != nil {
		return jaas{}, err
	}
	if len(tokens) < 3 {
		return jaas{}, errors.New("it is not complete: it has to be a login module, `required`, options and `;`")
	}
	out := jaas{module: tokens[0].text, options: map[string]string{}}
	switch strings.ToLower(tokens[1].text) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return jaas{}, errors.New("the word after the login module has to be `required`")
	}
	rest := tokens[2:]
	for len(rest) > 0 && !rest[0].is(";") {
		if len(rest) < 3 || !rest[1].is("=") || rest[0].mark || rest[2].mark {
			return jaas{}, fmt.Errorf("after option %d there is something that is not key=\"value\"", len(out.options))
		}
		out.options[rest[0].text] = rest[2].text
		rest = rest[3:]
	}
	switch {
	case len(rest) == 0:
		return jaas{}, errors.New("it does not end in `;`")
	case len(rest) > 1:
		return jaas{}, errors.New("it has more than one login module")
	}
	return out, nil
}

// jaasToken is a word, a quoted text, or one of the marks = and ;.
type jaasToken struct {
	text string
	mark bool
}

func (t jaasToken) is(mark string) bool { return t.mark && t.text == mark }

func jaasTokens(s string) ([]jaasToken, error) {
	var out []jaasToken
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c <= ' ':
			i++
		case c == '=' || c == ';':
			out = append(out, jaasToken{text: s[i : i+1], mark: true})
			i++
		case strings.HasPrefix(s[i:], "//"):
			n := strings.IndexByte(s[i:], '\n')
			if n < 0 {
				return out, nil
			}
			i += n
		case strings.HasPrefix(s[i:], "/*"):
			n := strings.Index(s[i+2:], "*/")
			if n < 0 {
				return nil, errors.New("a comment has no end")
			}
			i += n + 4
		case c == '"' || c == '\'':
			text, used, err := quoted(s[i:])
			if err != nil {
				return nil, err
			}
			out = append(out, jaasToken{text: text})
			i += used
		default:
			n := strings.IndexFunc(s[i:], func(r rune) bool { return r <= ' ' || strings.ContainsRune(`=;"'`, r) })
			if n < 0 {
				n = len(s) - i
			}
			out = append(out, jaasToken{text: s[i : i+n]})
			i += n
		}
	}
	return out, nil
}

// quoted reads a text in quotes at the start of s, with the escapes of Java's StreamTokenizer.
func quoted(s string) (text string, used int, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0]:
			return b.String(), i + 1, nil
		case c == '\n' || c == '\r':
			return "", 0, errors.New("a quoted text has no end on its line")
		case c == '\\' && i+1 < len(s):
			value, n := jaasEscape(s[i+1:])
			b.WriteString(value)
			i += n
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, errors.New("a quoted text has no end")
}

// jaasEscape reads what follows a backslash: a letter, up to three octal digits (at most \377), or any
// character for itself.
func jaasEscape(s string) (value string, used int) {
	if i := strings.IndexByte("abfnrtv", s[0]); i >= 0 {
		return "\a\b\f\n\r\t\v"[i : i+1], 1
	}
	n, limit := 0, 3
	if s[0] > '3' {
		limit = 2
	}
	octal := 0
	for n < limit && n < len(s) && s[n] >= '0' && s[n] <= '7' {
		octal = octal*8 + int(s[n]-'0')
		n++
	}
	if n > 0 {
		return string(rune(octal)), n
	}
	return s[:1], 1
}
