package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// quiet is an error of encoding/json without the values that it quotes: states are data, and errors are logged. The
// error itself is behind Unwrap.
type quiet struct {
	text string
	err  error
}

func (q quiet) Error() string { return q.text }
func (q quiet) Unwrap() error { return q.err }

// withoutValues says what is wrong and where, in the words of what is known to hold no value.
func withoutValues(err error) error {
	var (
		syntax *json.SyntaxError
		typed  *json.UnmarshalTypeError
		method *json.MarshalerError
		value  *json.UnsupportedValueError
		kind   *json.UnsupportedTypeError
	)
	text := ""
	switch {
	case errors.As(err, &method):
		text = fmt.Sprintf("a method of %v that encodes it failed with a %T, whose text may have values", method.Type, method.Err)
	case errors.As(err, &kind):
		text = "the type " + kind.Type.String() + " cannot be encoded"
	case errors.As(err, &value):
		text = "a value of type " + value.Value.Type().String() + " cannot be encoded: it is no number of JSON, or contains itself"
	case errors.As(err, &syntax):
		text = fmt.Sprintf("not valid JSON at byte %d", syntax.Offset)
	case errors.As(err, &typed):
		what, _, _ := strings.Cut(typed.Value, " ") // "number 1e999"
		text = fmt.Sprintf("a JSON %s at byte %d is no %v", what, typed.Offset, typed.Type)
		if typed.Field != "" {
			text += " (field " + typed.Struct + "." + typed.Field + ")"
		}
	default:
		text = fmt.Sprintf("a method that decodes failed with a %T, whose text may have values", err)
	}
	return quiet{text: text, err: err}
}
