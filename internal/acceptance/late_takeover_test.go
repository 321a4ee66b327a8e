package acceptance

import (
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// The transaction coordinator does not answer for longer than the assigned callback may take. The
// callback returns, the member goes on heart-beating with the partition paused, and the takeover is done
// later. Folding begins where the group's offset says, which the client did not know at the time.
func TestKafkaTakeoverLaterThanTheCallback(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	input := c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	group := input + "-flow"
	pr := producer(t, c)
	produce(t, pr, input, 0, 3, 0, 10)
	first := start(t, t.Context(), "first", short(config(c.Addrs, group, input)))
	first.committedTo(0, 10)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	produce(t, pr, input, 0, 3, 10, 20)

	a := newTap(t, c)
	init := a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.InitProducerID))
	watch := newGate(math.MaxInt64, 0)
	conf := tapped(short(config(c.Addrs, group, input)), a, "A")
	conf.Fold = watch.fold
	f := start(t, t.Context(), "A", conf)
	t.Cleanup(init.Lift)
	caught(t, init, 1)
	// The client fetches its own offset after the callback, and the member lives on.
	fetched := a.awaitSeen("the end of the callback", 0, 1, isRequest[*kmsg.OffsetFetchRequest](answeredWith(nil)))[0].place
	a.awaitSeen("heartbeats after the callback", fetched, 3, isRequest[*kmsg.HeartbeatRequest](answeredWith(nil)))
	if took := a.seen(0, isRequest[*kmsg.InitProducerIDRequest](func(s sight) bool { return s.answered })); len(took) > 0 {
		t.Fatalf("the takeover was answered: %v", took)
	}
	id := topicID(t, c, input)
	fetches := isRequest[*kmsg.FetchRequest](func(s sight) bool { // the start has looked at the progress records
		return slices.ContainsFunc(s.req.(*kmsg.FetchRequest).Topics, func(of kmsg.FetchRequestTopic) bool { return of.Topic == input || of.TopicID == id })
	})
	if got := a.seen(0, fetches); len(got) > 0 {
		t.Errorf("the partition is fetched before its takeover: %d fetches", len(got))
	}
	if n := len(each[stream.Assigned](f)); n > 0 {
		t.Errorf("%d assignments are told before the takeover", n)
	}
	init.Lift()
	if e := await(f, 0, any1[stream.Restored]); e.Start != 10 {
		t.Errorf("folding starts at %d, want 10", e.Start)
	}
	f.committedTo(0, 20)
	if first := <-watch.doors[0].folded; first != 10 {
		t.Errorf("the first record that was folded is %d, want 10", first)
	}
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	if n := len(each[lost](f)); n > 0 {
		t.Errorf("the partition was lost %d times", n)
	}
	for _, d := range check(t, c, group, input, group+"-snapshots") {
		t.Error(d)
	}
}
