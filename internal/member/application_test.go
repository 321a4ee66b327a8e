package member_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// shared is an embedded broker with two inputs of two partitions, and topics for the applications of one group.
func shared(t *testing.T) kafka.Config {
	t.Helper()
	_, k := sharedCluster(t)
	return k
}

func sharedCluster(t *testing.T) (*kfake.Cluster, kafka.Config) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "100"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	k := kafka.Config{Brokers: c.ListenAddrs()}
	cl, err := k.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for topic, policy := range map[string]string{"in": "delete", "other": "delete", "out": "delete", "one": "compact", "two": "compact"} {
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 2, 1, map[string]*string{"cleanup.policy": &policy}, topic); err != nil {
			t.Fatal(err)
		}
	}
	for p := range int32(2) {
		r := &kgo.Record{Topic: "in", Key: fmt.Append(nil, "k", p), Value: []byte("1")}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return c, k
}

// application is one of the applications of a group, and what became of it.
type application struct {
	run      func(context.Context) error
	check    func(context.Context) (claim.Report, error)
	restored chan struct{} // a partition was restored, or begun
}

func flowOf(t *testing.T, k kafka.Config, input, snapshots string, m holdfast.Member, change ...func(*holdfast.Config[int])) application {
	t.Helper()
	restored := make(chan struct{}, 100)
	conf := holdfast.Config[int]{
		Kafka: k, Group: "shared", Inputs: []string{input}, Snapshots: holdfast.Snapshots{Topic: snapshots},
		Codec: codec.JSON[int](), Fold: count(1), Member: m,
		Hooks: []holdfast.Hooks{{Restored: func(stream.Restored) { restored <- struct{}{} }}},
	}
	for _, c := range change {
		c(&conf)
	}
	f, err := holdfast.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	return application{f.Run, f.Check, restored}
}

func pipeOf(t *testing.T, k kafka.Config, input, progress string, m holdfast.Member) application {
	t.Helper()
	restored := make(chan struct{}, 100)
	p, err := pipe.New(pipe.Config{
		Kafka: k, Group: "shared", Inputs: []string{input}, Outputs: []string{"out"}, Progress: progress, Member: m,
		Func:  func(context.Context, stream.Record, *pipe.Out) error { return nil },
		Hooks: []stream.Hooks{{Restored: func(stream.Restored) { restored <- struct{}{} }}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return application{p.Run, p.Check, restored}
}

// together runs applications until one has stopped by itself or each has begun a partition, and returns what
// their runs do.
func together(t *testing.T, as ...application) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	errs := make([]error, len(as))
	var wg, begun sync.WaitGroup
	for i, a := range as {
		begun.Go(func() {
			select {
			case <-a.restored:
			case <-ctx.Done():
			}
		})
		wg.Go(func() {
			errs[i] = a.run(ctx)
			cancel()
		})
	}
	begun.Wait()
	cancel()
	wg.Wait()
	return errs
}

// Two applications in one group, started at once: none of them works on a part of the input while the other has
// the rest. Which one is refused, or whether both are, is theirs to find out.
func TestTwoApplicationsInOneGroup(t *testing.T) {
	t.Parallel()
	for _, protocol := range []holdfast.Protocol{holdfast.Cooperative, holdfast.Eager} {
		for _, c := range []struct {
			name  string
			two   func(kafka.Config, holdfast.Member) application
			stops error
			named string
		}{
			{"two flows of one input", func(k kafka.Config, m holdfast.Member) application { return flowOf(t, k, "in", "two", m) }, stream.ErrOtherApplication, "snapshot topic"},
			{"a pipe of the flow's input", func(k kafka.Config, m holdfast.Member) application { return pipeOf(t, k, "in", "two", m) }, stream.ErrOtherComponent, ""},
			{"a pipe of another input", func(k kafka.Config, m holdfast.Member) application { return pipeOf(t, k, "other", "two", m) }, stream.ErrOtherComponent, "progress topic two"},
		} {
			t.Run(fmt.Sprint(protocol, "/", c.name), func(t *testing.T) {
				t.Parallel()
				k := shared(t)
				m := holdfast.Member{Protocol: protocol}
				errs := together(t, flowOf(t, k, "in", "one", m), c.two(k, m))
				err := errors.Join(errs...)
				if !errors.Is(err, c.stops) || !strings.Contains(err.Error(), c.named) || !strings.Contains(err.Error(), "a group of its own") || strings.Contains(err.Error(), "Rebuild") {
					t.Errorf("I2: two applications in one group ended with %v", errs)
				}
			})
		}
	}
}

// A flow that would start where another one runs is refused before it joins, and told what helps.
func TestCheckSeesTheOtherApplication(t *testing.T) {
	t.Parallel()
	k := shared(t)
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer cancel()
	one := flowOf(t, k, "in", "one", holdfast.Member{})
	run.Go(func() {
		if err := one.run(ctx); err != nil {
			t.Errorf("the flow that was there: %v", err)
		}
	})
	<-one.restored
	<-one.restored
	for _, c := range []struct {
		name  string
		check func(context.Context) (claim.Report, error)
		stops error
	}{
		{"another flow", flowOf(t, k, "in", "two", holdfast.Member{}).check, stream.ErrOtherApplication},
		{"a pipe of another input", pipeOf(t, k, "other", "two", holdfast.Member{}).check, stream.ErrOtherComponent},
		{"a pipe of the same input", pipeOf(t, k, "in", "two", holdfast.Member{}).check, stream.ErrOtherComponent},
		{"the same flow", flowOf(t, k, "in", "one", holdfast.Member{}, func(c *holdfast.Config[int]) { c.FoldVersion = "2" }).check, nil},
	} {
		report, err := c.check(ctx)
		text := report.String()
		if !errors.Is(err, c.stops) || c.stops != nil && (!strings.Contains(err.Error(), "a group of its own") || strings.Contains(text, "Rebuild") || strings.Contains(text, "emptied")) {
			t.Errorf("I2: %s is told %v\n%s", c.name, err, text)
		}
	}
}

// Two that were there before, each with its offsets and progress, go on, and the log says that they meet. The group
// takes no member until both have found it empty.
func TestTwoThatWereThereBeforeAreNoticed(t *testing.T) {
	t.Parallel()
	cluster, k := sharedCluster(t)
	logs := make(chan string, 100)
	flow := flowOf(t, k, "in", "one", holdfast.Member{}, func(c *holdfast.Config[int]) {
		c.Logger = slog.New(slog.NewTextHandler(lineWriter(logs), nil))
	})
	for _, a := range []application{flowOf(t, k, "in", "one", holdfast.Member{}), pipeOf(t, k, "other", "two", holdfast.Member{})} {
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			if err := a.run(ctx); err != nil {
				t.Error(err)
			}
		})
		<-a.restored
		<-a.restored
		cancel()
		run.Wait()
	}
	joining := map[bool]bool{}
	cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		join := req.(*kmsg.JoinGroupRequest)
		joining[bytes.Contains(join.Protocols[0].Metadata, []byte("other"))] = true
		if len(joining) == 2 {
			return nil, nil, false
		}
		resp := join.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return resp, nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var runs sync.WaitGroup
	for _, a := range []application{flow, pipeOf(t, k, "other", "two", holdfast.Member{})} {
		runs.Go(func() {
			if err := a.run(ctx); err != nil {
				t.Errorf("one that was there before ended with %v", err)
			}
		})
	}
	for said := false; !said; {
		select {
		case line := <-logs:
			said = strings.Contains(line, "another application is in the group") && strings.Contains(line, "progress topic two")
		case <-ctx.Done():
			t.Error("I2: two applications are in one group, and nothing says so")
			said = true
		}
	}
	cancel()
	runs.Wait()
}

// lineWriter sends each line of a log.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
