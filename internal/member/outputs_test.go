package member

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// The brokers acknowledge the outputs in any order, and folding goes on while a commit waits.
func TestCommitWaitsForItsOwnOutputs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outputs{w: &worker{m: &Member{cfg: Config{TransactionTimeout: time.Second}}, own: &fence.Ownership{}}}
		first, second := o.next(), o.next()
		ended := make(chan error, 1)
		go func() { ended <- o.acked(t.Context()) }()
		synctest.Wait()
		ack := func(number int64) {
			o.answered(number, stream.Record{}, &kgo.Record{}, nil)
			synctest.Wait()
		}
		ack(first)
		ack(o.next()) // of a step that this commit does not cover
		select {
		case err := <-ended:
			t.Fatalf("I4: the commit went on (%v) before output %d was acknowledged", err, second)
		default:
		}
		ack(second)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A refusal ends the wait, whichever output it is about.
func TestRefusedOutputEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outputs{w: &worker{m: &Member{cfg: Config{TransactionTimeout: time.Second}}, own: &fence.Ownership{}}}
		o.next()
		ended := make(chan error, 1)
		go func() { ended <- o.acked(t.Context()) }()
		synctest.Wait()
		o.answered(o.next(), stream.Record{}, &kgo.Record{Topic: "out"}, errors.New("refused"))
		if err := <-ended; !errors.Is(err, stream.ErrOutput) {
			t.Errorf("%v, want ErrOutput", err)
		}
	})
}
