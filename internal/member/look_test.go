package member

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// layoutOf is that of an input with two partitions, whose n-th look, from 1 on, is answered by answer.
func layoutOf(ctx context.Context, wg *sync.WaitGroup, answer func(ctx context.Context, n int) (wire.Layout, error)) *layout {
	var asked atomic.Int64
	return &layout{
		ask:   func(ctx context.Context) (wire.Layout, error) { return answer(ctx, int(asked.Add(1))) },
		input: wire.Facts{Topic: "in", ID: [16]byte{1}, Partitions: 2}, limit: 30 * time.Second, ctx: ctx, wg: wg,
	}
}

func partitions(n int32) wire.Layout {
	return wire.Layout{ID: [16]byte{1}, Partitions: n, Exists: true}
}

// A look that had begun before what is to be committed was fetched says nothing about it:
//
//  1. A look is sent, for another partition of the member.
//  2. The broker answers that there are two partitions. A third one is added, and a record is written and fetched.
//  3. The record is to be committed. The answer arrives.
func TestLookBeginsAfterTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		defer wg.Wait()
		release := make(chan struct{})
		l := layoutOf(t.Context(), &wg, func(_ context.Context, n int) (wire.Layout, error) {
			if n == 1 {
				<-release
				return partitions(2), nil
			}
			return partitions(3), nil
		})
		first, second := make(chan error, 1), make(chan error, 2)
		go func() { first <- l.unchanged(t.Context()) }()
		synctest.Wait()
		for range 2 {
			go func() { second <- l.unchanged(t.Context()) }()
		}
		synctest.Wait()
		close(release)
		if err := <-first; err != nil {
			t.Errorf("the first look has found two partitions, and says %v", err)
		}
		for range 2 {
			if err := <-second; !errors.Is(err, stream.ErrInputChanged) {
				t.Errorf("I2: who came during a look was told of it: %v", err)
			}
		}
	})
}

// What a look makes of the answers that it is given.
func TestLookAtAnswers(t *testing.T) {
	t.Parallel()
	silent := func(ctx context.Context, _ int) (wire.Layout, error) {
		<-ctx.Done()
		return wire.Layout{}, ctx.Err()
	}
	for name, c := range map[string]struct {
		answer func(ctx context.Context, n int) (wire.Layout, error)
		took   time.Duration
		want   error
	}{
		"as it was":              {func(context.Context, int) (wire.Layout, error) { return partitions(2), nil }, 0, nil},
		"one more":               {func(context.Context, int) (wire.Layout, error) { return partitions(3), nil }, 0, stream.ErrInputChanged},
		"a broker behind, first": {func(_ context.Context, n int) (wire.Layout, error) { return partitions(min(int32(n), 2)), nil }, 100 * time.Millisecond, nil},
		"all brokers behind":     {func(context.Context, int) (wire.Layout, error) { return partitions(1), nil }, 30 * time.Second, stream.ErrUnreachable},
		"an error, first": {func(_ context.Context, n int) (wire.Layout, error) {
			if n == 1 {
				return wire.Layout{}, errors.New("connection reset")
			}
			return partitions(3), nil
		}, 100 * time.Millisecond, stream.ErrInputChanged},
		"a broker that is stopped": {func(ctx context.Context, n int) (wire.Layout, error) {
			if n == 1 {
				return silent(ctx, n)
			}
			return partitions(3), nil
		}, askAnother, stream.ErrInputChanged},
		"silence": {silent, 30 * time.Second, stream.ErrUnreachable},
		"no permission": {func(context.Context, int) (wire.Layout, error) {
			return wire.Layout{}, stream.NewError("describe", stream.ErrNotAuthorized)
		}, 0, stream.ErrNotAuthorized},
		"another topic, or no": {func(_ context.Context, n int) (wire.Layout, error) { return wire.Layout{Exists: n%2 == 0}, nil }, strangeFor, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var wg sync.WaitGroup
				defer wg.Wait()
				began := time.Now()
				err := layoutOf(t.Context(), &wg, c.answer).unchanged(t.Context())
				if !errors.Is(err, c.want) || c.want == nil && err != nil || time.Since(began) != c.took {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), c.want, c.took)
				}
			})
		})
	}
}
