package shared

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestOnce: one load for all who ask, whatever becomes of the first of them. Who has left begins none.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Value[int]
		var loads, got atomic.Int64
		gate := make(chan struct{})
		load := func(ctx context.Context) (int, error) {
			loads.Add(1)
			select {
			case <-gate:
				return 7, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		first, leave := context.WithCancel(t.Context())
		go func() {
			says.ErrorIs(t, says.Err(v.Get(first, load)), context.Canceled, "who left")
		}()
		synctest.Wait()
		for range 10 {
			go func() {
				n, err := v.Get(t.Context(), load)
				says.True(t, n == 7 && err == nil, "%d, %v", n, err)
				got.Add(1)
			}()
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(gate)
		synctest.Wait()
		says.Equal(t, loads.Load(), 1, "loads it")
		says.Equal(t, got.Load(), 10, "loads it")
		if n, ok := v.Loaded(); n != 7 || !ok {
			t.Errorf("%d, %v: not kept", n, ok)
		}
		v.Forget()
		if _, err := v.Get(t.Context(), load); err != nil || loads.Load() != 2 {
			t.Errorf("%v, %d loads after it was forgotten", err, loads.Load())
		}
		if _, err := v.GetFor(first, "another", load); !errors.Is(err, context.Canceled) || loads.Load() != 2 {
			t.Errorf("%v, %d loads for who has left", err, loads.Load())
		}
	})
}

// TestLeft: when all have left the load ends, and who comes then starts again.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Value[int]
		ended := make(chan error, 1)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			_, _ = v.Get(ctx, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return 0, context.Cause(ctx)
			})
		}()
		synctest.Wait()
		leave()
		says.ErrorIs(t, <-ended, errLeft, "the load ended")
		says.Equal(t, must.Get(v.Get(t.Context(), func(context.Context) (int, error) { return 3, nil }))(t), 3)
	})
}

// TestLingers: a load goes on for who waited long enough and comes back, but neither for ever nor for another key.
func TestLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Value[string]
		var ended []error
		begun := 0
		// ask waits for a second for a load of 9.5 s.
		ask := func(key string) (string, error) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, ErrWaited)
			defer cancel()
			return v.GetFor(ctx, key, func(ctx context.Context) (string, error) {
				begun++
				select {
				case <-time.After(9500 * time.Millisecond):
				case <-ctx.Done():
					ended = append(ended, context.Cause(ctx))
				}
				return key, context.Cause(ctx)
			})
		}
		for range 3 {
			says.ErrorIs(t, says.Err(ask("a")), ErrWaited)
			time.Sleep(2 * time.Second)
		}
		got := must.Get(ask("a"))(t)
		says.True(t, got == "a" && begun == 1, "%q, loaded %d times", got, begun)
		_, _ = ask("b")
		_, _ = ask("c")
		synctest.Wait()
		says.True(t, len(ended) == 1 && errors.Is(ended[0], errLeft) && begun == 3,
			"%d begun; ended for another key: %v", begun, ended)
		time.Sleep(linger)
	})
	synctest.Test(t, func(t *testing.T) {
		var v Value[int]
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, ErrWaited)
		defer cancel()
		began, took := time.Now(), time.Duration(0)
		_, _ = v.Get(ctx, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			took = time.Since(began)
			return 0, context.Cause(ctx)
		})
		time.Sleep(2 * linger)
		synctest.Wait()
		says.Equal(t, took, time.Second+linger, "nobody came back: it ended after")
	})
}

func TestFailures(t *testing.T) {
	var v Value[int]
	broken := errors.New("broken")
	says.ErrorIs(t, says.Err(v.Get(t.Context(), func(context.Context) (int, error) { return 0, broken })), broken)
	_, err := v.Get(t.Context(), func(context.Context) (int, error) { panic("oh no") })
	says.True(t, errors.Is(err, ErrPanic) && strings.Contains(err.Error(), "oh no"), err)
	says.Equal(t, must.Get(v.GetFor(t.Context(), "a", func(context.Context) (int, error) { return 1, nil }))(t), 1)
	n, _ := v.GetFor(t.Context(), "a", func(context.Context) (int, error) { return 2, nil })
	says.True(t, n == 1, "%d: loaded again for the same key", n)
	n, _ = v.GetFor(t.Context(), "b", func(context.Context) (int, error) { return 2, nil })
	says.True(t, n == 2, "%d: not loaded for another key", n)
}
