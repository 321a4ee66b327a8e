package holdfasttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/stream"
)

// A test of a flow: it runs on the embedded broker until it has committed everything, and the checker
// judges what it has left behind.
func ExampleVerify() {
	testLedger := func(t testing.TB) {
		conf := holdfast.Config[int64]{
			Kafka: holdfasttest.Broker(t), Group: "ledger", Inputs: []string{"payments"},
			Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.JSON[int64](),
			Guarantee: holdfast.FencedOutputs, Outputs: []string{"balances"},
			Fold: func(_ context.Context, k *holdfast.Key[int64], r stream.Record) error {
				var cents int64
				if err := json.Unmarshal(r.Value, &cents); err != nil {
					return err
				}
				old, _ := k.State()
				k.Set(old + cents)
				k.Emit(stream.Message{Topic: "balances", Key: k.Bytes(), Value: fmt.Append(nil, old+cents)})
				return nil
			},
		}
		pay(t, conf, "ada 250", "bob 100", "ada -50")

		committed := make(chan int64, 100)
		conf.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) { committed <- e.Next }}}
		rec := holdfasttest.NewRecorder("one", nil)
		flow, err := holdfast.New(holdfasttest.Watch(rec, conf))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			rec.Stopped(flow.Run(ctx))
		}()
		for <-committed < 3 {
		}
		stop()
		<-done
		holdfasttest.Verify(t, holdfasttest.Flow(conf), rec.Member())
	}

	run(testLedger)
	// Output: ok
}

// pay makes the topics and writes payments, each "key cents".
func pay(t testing.TB, conf holdfast.Config[int64], payments ...string) {
	cl, err := conf.Kafka.Client(kgo.MetadataMinAge(100 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopics(t.Context(), 1, 1, nil, "payments", "balances"); err != nil {
		t.Fatal(err)
	}
	for _, text := range payments {
		r := &kgo.Record{Topic: "payments", Key: []byte(text[:3]), Value: []byte(text[4:])}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a test outside of go test, and prints what it says.
func run(test func(testing.TB)) {
	t := &standIn{}
	defer func() {
		for _, f := range t.cleanups {
			f()
		}
	}()
	test(t)
	if !t.failed {
		fmt.Println("ok")
	}
}

// standIn is as much of a testing.T as the example needs.
type standIn struct {
	testing.TB
	failed   bool
	cleanups []func()
}

func (t *standIn) Helper()                  {}
func (t *standIn) Context() context.Context { return context.Background() }
func (t *standIn) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }
func (t *standIn) Error(args ...any)        { t.failed = true; fmt.Println(args...) }
func (t *standIn) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }
func (t *standIn) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
func (t *standIn) Errorf(format string, args ...any) { t.Error(fmt.Sprintf(format, args...)) }
