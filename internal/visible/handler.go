package visible

import (
	"context"
	"fmt"
	"log/slog"
)

// A Handler passes log records on with their texts as Lines returns them: handlers escape line breaks, and
// most leave the control characters above ASCII and those of bidirectional text as they are.
type Handler struct{ to slog.Handler }

// NewHandler returns a Handler to to. Of a Handler it is the same once.
func NewHandler(to slog.Handler) Handler {
	if h, ok := to.(Handler); ok {
		return h
	}
	return Handler{to}
}

// Enabled implements slog.Handler.
func (h Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.to.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (h Handler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, Lines(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(attr(a))
		return true
	})
	return h.to.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h Handler) WithAttrs(as []slog.Attr) slog.Handler {
	return Handler{h.to.WithAttrs(attrs(as))}
}

// WithGroup implements slog.Handler.
func (h Handler) WithGroup(name string) slog.Handler { return Handler{h.to.WithGroup(Text(name))} }

func attrs(as []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(as))
	for i, a := range as {
		out[i] = attr(a)
	}
	return out
}

// attr keeps a value of which nothing is to be escaped as it is, with its type.
func attr(a slog.Attr) slog.Attr {
	a.Key = Text(a.Key)
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Lines(a.Value.String()))
	case slog.KindGroup:
		a.Value = slog.GroupValue(attrs(a.Value.Group())...)
	case slog.KindAny:
		a.Value = anyValue(a.Value)
	}
	return a
}

func anyValue(v slog.Value) slog.Value {
	text := ""
	switch x := v.Any().(type) {
	case []string:
		out := make([]string, len(x))
		for i, s := range x {
			out[i] = Lines(s)
		}
		return slog.AnyValue(out)
	case error:
		text = fmt.Sprint(x) // which survives a nil pointer
	case fmt.Stringer:
		text = fmt.Sprint(x)
	default:
		return v
	}
	if shown := Lines(text); shown != text {
		return slog.StringValue(shown)
	}
	return v
}
