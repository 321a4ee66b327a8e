package pipe

import (
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/stream"
)

// Out takes what one call of Func sends. It must not be used after the call, nor from another
// goroutine: later use panics.
type Out struct {
	record *stream.Record // nil: the call has returned
	sent   []stream.Message
}

func (o *Out) current(method string) *stream.Record {
	if o.record == nil {
		panic("pipe: Out." + method + " was called after the call that it was passed to had returned; it is valid during that one call only")
	}
	return o.record
}

// Send writes m to m.Topic, which must be one of Config.Outputs: another one fails the record with
// stream.ErrUndeclaredOutput, and a message that is larger than the topic takes with stream.ErrTooLarge.
// A nil key, nil headers and a zero timestamp are taken from the input record, but for the headers of dead
// letters (dlq.Reserved), which say where that record comes from; SendBare takes nothing. A timestamp outside the
// years 1678 to 2261 cannot be written, and fails the record with stream.ErrOutput.
// Messages of one call, and of calls for the records of one partition, are written in their order.
func (o *Out) Send(m stream.Message) {
	r := o.current("Send")
	if m.Key == nil {
		m.Key = r.Key
	}
	if m.Headers == nil {
		m.Headers = dlq.Unreserved(r.Headers)
	}
	if m.Timestamp.IsZero() {
		m.Timestamp = r.Timestamp
	}
	o.sent = append(o.sent, m)
}

// SendBare writes m as it is: a nil key is none, nil headers are none, and a zero timestamp is the time
// at which it is sent.
func (o *Out) SendBare(m stream.Message) {
	o.current("SendBare")
	o.sent = append(o.sent, m)
}

// Forward writes the input record to a topic with key, value, headers and timestamp unchanged, but for the headers
// of dead letters and of snapshots (dlq.Reserved). Out.Send takes them where it is given them.
func (o *Out) Forward(topic string) {
	r := o.current("Forward")
	o.sent = append(o.sent, stream.Message{Topic: topic, Key: r.Key, Value: r.Value, Headers: dlq.Unreserved(r.Headers), Timestamp: r.Timestamp})
}
