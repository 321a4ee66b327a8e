package dlq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/stream"
)

func ExamplePolicy() {
	p := dlq.Policy{
		Topic:        "orders.dead",
		Attempts:     5,
		Backoff:      func(attempt int) time.Duration { return time.Duration(attempt) * time.Second },
		MaxPerMinute: 20,
	}
	fmt.Println(p.Validate())
	d := dlq.Policy{Topic: "orders.dead"}.WithDefaults()
	fmt.Println(d.Attempts, d.MaxPerMinute, d.Backoff(1), d.Backoff(2), d.Backoff(20))
	// Output:
	// <nil>
	// 3 60 100ms 200ms 30s
}

var errUnknownProduct = errors.New("unknown product")

func ExampleClasses() {
	onError := dlq.Classes(
		dlq.OnPanic(stream.Stop),                              // a bug of the program
		dlq.On(errUnknownProduct, stream.RetryThenDeadLetter), // the product may come a little later
		dlq.OnMatch(func(e *stream.RecordError) bool {
			var syntax *json.SyntaxError
			return errors.As(e.Err, &syntax)
		}, stream.DeadLetter), // it will never parse
		dlq.Otherwise(stream.Stop),
	)
	broken := json.Unmarshal([]byte("{"), new(any))
	for _, err := range []error{fmt.Errorf("order 7: %w", errUnknownProduct), broken, stream.ErrNotAuthorized} {
		fmt.Println(onError(context.Background(), &stream.RecordError{Attempt: 1, Err: err}))
	}
	// A broker that cannot be reached is nothing that a record could be blamed for.
	retry := dlq.Classes(dlq.Otherwise(stream.RetryThenDeadLetter))
	fmt.Println(retry(context.Background(), &stream.RecordError{Attempt: 1, Err: stream.ErrUnreachable}))
	// Output:
	// retry-then-dead-letter
	// dead-letter
	// stop
	// retry
}

func ExampleParse() {
	record := stream.Record{Topic: "orders", Partition: 3, Offset: 42, Key: []byte("7"), Value: []byte("{")}
	m := dlq.New(record, dlq.Cause{Topic: "orders.dead", Err: errors.New("unexpected end"), Stage: "fold", Attempt: 3, Group: "ledger"})

	// What a reader of orders.dead gets.
	letter, err := dlq.Parse(stream.Record{Topic: m.Topic, Key: m.Key, Value: m.Value, Headers: m.Headers})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(letter.Family, letter.Origin, letter.Attempt, letter.Reason)
	// Output: holdfast orders/3/42 3 unexpected end
}
