package holdfast_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

// Delete ends the state of a basket that was paid.
func ExampleKey_Delete() {
	s := open("baskets")
	defer s.close()
	s.produce("baskets", "ann apple", "bob pear", "ann paid")

	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka:     s.Kafka(),
		Group:     "open-baskets",
		Inputs:    []string{"baskets"},
		Snapshots: created,
		Codec:     codec.String(),
		Fold: func(_ context.Context, k *holdfast.Key[string], r stream.Record) error {
			if string(r.Value) == "paid" {
				k.Delete()
			} else {
				k.Set(string(r.Value))
			}
			_, ok := k.State()
			fmt.Printf("%s %s: has a basket: %v\n", k.Bytes(), r.Value, ok)
			return nil
		},
		Commit: often,
		Hooks:  []holdfast.Hooks{s.until(3)},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	// Output:
	// ann apple: has a basket: true
	// bob pear: has a basket: true
	// ann paid: has a basket: false
	// run: <nil>
}

// Emit writes to another topic. A record that is folded again after a crash emits again.
func ExampleKey_Emit() {
	s := open("readings", "alarms")
	defer s.close()
	s.produce("readings", "boiler 70", "boiler 95", "boiler 97")

	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka:     s.Kafka(),
		Group:     "watch",
		Inputs:    []string{"readings"},
		Outputs:   []string{"alarms"},
		Snapshots: created,
		Codec:     codec.String(),
		Fold: func(_ context.Context, k *holdfast.Key[string], r stream.Record) error {
			before, _ := k.State()
			if string(r.Value) > "90" && before <= "90" {
				k.Emit(stream.Message{Topic: "alarms", Key: k.Bytes(), Value: r.Value})
			}
			k.Set(string(r.Value))
			return nil
		},
		Commit: often,
		Hooks:  []holdfast.Hooks{s.until(3)},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	shown := map[string]bool{} // outputs are at-least-once: a reader drops repeats by a key of its own
	for _, r := range s.read("alarms") {
		if alarm := fmt.Sprintf("alarm: %s %s", r.Key, r.Value); !shown[alarm] {
			shown[alarm] = true
			fmt.Println(alarm)
		}
	}
	// Output:
	// run: <nil>
	// alarm: boiler 95
}

// Persist asks for a snapshot of one key at once, where the others may wait for an hour. The committed
// offset stays at the oldest record whose key is not persisted: bob's, at offset 1.
func ExampleKey_Persist() {
	s := open("orders")
	defer s.close()
	s.produce("orders", "ann draft", "bob draft", "ann paid")

	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka:     s.Kafka(),
		Group:     "orders-state",
		Inputs:    []string{"orders"},
		Snapshots: created,
		Codec:     codec.String(),
		Fold: func(_ context.Context, k *holdfast.Key[string], r stream.Record) error {
			k.Set(string(r.Value))
			if string(r.Value) == "paid" {
				k.Persist()
			}
			return nil
		},
		Commit: holdfast.Commit{Persist: time.Hour},
		Hooks: []holdfast.Hooks{{Committed: func(c stream.Committed) {
			if c.Writes > 0 {
				fmt.Printf("%d snapshot, committed offset %d\n", c.Writes, c.Next)
				s.stop()
			}
		}}},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	// What was folded is committed when the run ends, and that is bob's draft.

	// Output:
	// 1 snapshot, committed offset 1
	// 1 snapshot, committed offset 3
	// run: <nil>
}

// Chain makes one step of two folds: if the second fails, nothing of the first remains.
func ExampleChain() {
	s := open("deposits")
	defer s.close()
	s.produce("deposits", "ann 30", "ann 900", "ann 20")

	type fold = func(context.Context, *holdfast.Key[int], stream.Record) error
	var add fold = func(_ context.Context, k *holdfast.Key[int], r stream.Record) error {
		var amount int
		if _, err := fmt.Sscan(string(r.Value), &amount); err != nil {
			return err
		}
		sum, _ := k.State()
		k.Set(sum + amount)
		return nil
	}
	var limit fold = func(_ context.Context, k *holdfast.Key[int], r stream.Record) error {
		if sum, _ := k.State(); sum > 100 {
			return fmt.Errorf("a balance of %d is over the limit", sum)
		}
		return nil
	}
	flow, err := holdfast.New(holdfast.Config[int]{
		Kafka:     s.Kafka(),
		Group:     "limits",
		Inputs:    []string{"deposits"},
		Snapshots: created,
		Codec:     codec.JSON[int](),
		Fold:      holdfast.Chain(add, limit),
		OnError:   func(context.Context, *stream.RecordError) stream.Action { return stream.Skip },
		Commit:    often,
		Hooks:     []holdfast.Hooks{s.until(3)},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	s.show("limits-snapshots")
	// Output:
	// run: <nil>
	// ann 50
}
