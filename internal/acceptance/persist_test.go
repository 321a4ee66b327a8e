package acceptance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

// strict is a codec of texts that refuses one.
type strict struct{ codec.Codec[string] }

var errUnwritable = errors.New("this text cannot be written")

func (c strict) Append(dst []byte, s string) ([]byte, error) {
	if s == "unwritable" {
		return dst, errUnwritable
	}
	return c.Codec.Append(dst, s)
}

const textLimitBytes = 2000

// texts is the configuration of a flow whose state is the value of the last record of the key, in a
// snapshot topic that takes records up to textLimitBytes.
func texts(k *kafkatest.Cluster, group, input string, keep holdfast.OnPersistError) holdfast.Config[string] {
	base := config(k.Addrs, group, input)
	base.Commit.OnPersistError = keep
	return holdfast.Config[string]{
		Kafka: base.Kafka, Group: group, Inputs: base.Inputs, Commit: base.Commit, Member: base.Member,
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{Configs: map[string]string{"max.message.bytes": "2000"}}},
		Codec:     strict{codec.JSON[string]()},
		Fold: func(_ context.Context, key *holdfast.Key[string], r stream.Record) error {
			key.Set(string(r.Value))
			return nil
		},
	}
}

// unwritable are the states that no snapshot can hold.
var unwritable = []struct {
	name     string
	value    string
	sentinel error
	words    []string
}{
	{"too large", strings.Repeat("x", textLimitBytes+500), holdfast.ErrTooLarge, []string{"2500", "2000", "max.message.bytes"}},
	{"codec fails", "unwritable", errUnwritable, []string{errUnwritable.Error()}},
}

// A state that cannot be written stops the flow with its key, if that is wanted. The key's record is
// not committed, so that a program which can write it goes on there.
// Public case G9.
func TestKafkaStopOnPersistError(t *testing.T) {
	for _, c := range unwritable {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := kafkatest.Start(t)
			input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
			group, pr := input+"-flow", producer(t, k)
			send(t, pr, input, "small", "a")
			send(t, pr, input, "big", c.value)
			err := start(t, t.Context(), "stopping", texts(k, group, input, holdfast.StopOnPersistError)).failure()
			if c.name == "too large" { // with the overhead of the record
				c.words = c.words[1:]
			}
			named(t, err, c.sentinel, c.words...)
			located(t, err, stream.Partition{Topic: input}, 1, "big")
			if got := committed(t, k, group, input)[0]; got > 1 {
				t.Errorf("committed %d, past the record whose state is not persisted", got)
			}
		})
	}
}

// With KeepDirty the other keys go on, the committed offset stays behind the key that cannot be
// written, and the key is told of. Once it can be written everything is committed.
// Public case G9.
func TestKafkaKeepDirty(t *testing.T) {
	for _, c := range unwritable {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := kafkatest.Start(t)
			input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
			group, pr := input+"-flow", producer(t, k)
			send(t, pr, input, "small", "a")
			send(t, pr, input, "big", c.value)
			f := start(t, t.Context(), "keeping", texts(k, group, input, holdfast.KeepDirty))
			e := await(f, 0, func(e stream.Refused) bool { return e.Cause == "record" })
			named(t, e.Err, c.sentinel)
			located(t, e.Err, stream.Partition{Topic: input}, 1, "big")
			await(f, 0, func(e stream.Committed) bool { return e.Writes == 1 }) // of a
			for i, value := range []string{"b", "c", "d"} {
				mark := f.mark()
				send(t, pr, input, "small", value)
				if next := await(f, mark, func(e stream.Committed) bool { return e.Writes == 1 }).Next; next != 1 {
					t.Errorf("commit %d: offset %d, want 1: the key at it is not persisted", i, next)
				}
				if got := newest(t, k, group+"-snapshots", "small"); got != `"`+value+`"` {
					t.Errorf("stored %s for the key that can be written, want %q", got, value)
				}
			}
			send(t, pr, input, "big", "now it fits")
			f.committedTo(0, 6)
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
			if got := newest(t, k, group+"-snapshots", "big"); got != `"now it fits"` {
				t.Errorf("stored %s in the end", got)
			}
			if e := each[revoked](f); len(e) != 1 || !e[0].Flushed {
				t.Errorf("revoked %+v, want everything flushed", e)
			}
		})
	}
}
