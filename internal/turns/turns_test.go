package turns

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// work takes a slot for a time, or until its turn is ended, and notes its key in order.
func work(t *testing.T, s *Slots, key string, takes time.Duration, begin func(key string),
	end func(key string, cause error)) {
	ctx, done, err := s.Take(t.Context(), key, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer done()
	begin(key)
	select {
	case <-ctx.Done():
		end(key, context.Cause(ctx))
	case <-time.After(takes):
		end(key, nil)
	}
}

// TestKeysTakeTurns: however much one key asks for, each other key is served next.
func TestKeysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 0)
		var mu sync.Mutex
		var order []string
		begin := func(key string) { mu.Lock(); order = append(order, key); mu.Unlock() }
		var all sync.WaitGroup
		for _, key := range strings.Split("aaaaabbc", "") {
			all.Go(func() { work(t, s, key, time.Second, begin, func(string, error) {}) })
			synctest.Wait()
		}
		all.Wait()
		says.Equal(t, strings.Join(order, ""), "abcabaaa", "served in the order")
	})
}

// TestOneKeyMayUseAllSlots while nobody else waits; then the next free one is the other's.
func TestOneKeyMayUseAllSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(3, time.Minute)
		ended := make(map[string]time.Duration)
		var mu sync.Mutex
		var all sync.WaitGroup
		began := time.Now()
		start := func(key string, takes time.Duration) {
			all.Go(func() {
				work(t, s, key[:1], takes, func(string) {}, func(_ string, cause error) {
					mu.Lock()
					defer mu.Unlock()
					says.True(t, cause == nil || errors.Is(cause, ErrEnded), cause)
					ended[key] = time.Since(began)
				})
			})
			synctest.Wait()
		}
		for i := range 5 {
			start(fmt.Sprint("a", i), time.Hour)
			time.Sleep(time.Second)
		}
		start("b", 10*time.Second)
		all.Wait()
		// Three of a's run, and two wait: the third to wait is b, so each of the running ones ends after its minute,
		// and b is first.
		want := map[string]time.Duration{"a0": 60 * time.Second, "a1": 61 * time.Second, "a2": 62 * time.Second,
			"b": 70 * time.Second}
		for key, at := range want {
			says.Equal(t, ended[key], at, "%s ended after", key)
		}
		for _, key := range []string{"a3", "a4"} { // nobody waits for theirs
			says.True(t, ended[key] >= time.Hour, "%s ended after %s", key, ended[key])
		}
	})
}

// TestWaitingIsBounded by time, by the context and by number.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 0)
		_, done, err := s.Take(t.Context(), "a", time.Second)
		must.OK(t, err)
		began := time.Now()
		_, _, err = s.Take(t.Context(), "b", time.Second)
		says.True(t, errors.Is(err, ErrBusy) && time.Since(began) == time.Second, "%v after %s", err, time.Since(began))
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		_, _, err = s.Take(ctx, "b", 0)
		says.True(t, errors.Is(err, gone), err)
		ctx, cancel = context.WithCancelCause(t.Context())
		defer cancel(nil)
		var waiting sync.WaitGroup
		for range maxWaiting {
			waiting.Go(func() { _, _, _ = s.Take(ctx, "a", 0) })
		}
		synctest.Wait()
		_, _, err = s.Take(t.Context(), "a", 0)
		says.True(t, errors.Is(err, ErrBusy), err)
		go func() { time.Sleep(time.Second); done(); done() }()
		if _, done, err := s.Take(t.Context(), "b", time.Minute); err != nil {
			t.Error("another key finds no place:", err)
		} else {
			cancel(nil)
			waiting.Wait()
			done()
		}
		says.True(t, len(s.waiting)+len(s.running) == 0 && s.free == 1, "%d wait, %d run, %d are free", len(s.waiting),
			len(s.running), s.free)
	})
}

// TestNoSlotIsLost: whoever gives up while a slot is passed to it, gives it back; forgotten keys do not add up.
func TestNoSlotIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(2, time.Second)
		var all sync.WaitGroup
		for i := range 5 * remembered {
			all.Go(func() {
				time.Sleep(time.Duration(i%700) * time.Millisecond)
				ctx, done, err := s.Take(t.Context(), fmt.Sprint(i), time.Duration(i%300+1)*time.Millisecond)
				if err != nil {
					return
				}
				defer done()
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(i%7) * time.Millisecond):
				}
			})
		}
		all.Wait()
		says.True(t, s.free == 2 && len(s.served) <= 2*remembered+1, "%d slots are free, %d keys are remembered",
			s.free, len(s.served))
	})
}

// TestEndedInTurn: work that does not end when it is told to is told once, and the next one is told too if two wait.
func TestEndedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(3, time.Second)
		var contexts []context.Context
		for range 3 {
			ctx, done, err := s.Take(t.Context(), "a", 0)
			must.OK(t, err)
			defer done()
			contexts = append(contexts, ctx)
		}
		time.Sleep(time.Minute)
		told := func() (told []bool) {
			synctest.Wait()
			for _, ctx := range contexts {
				told = append(told, errors.Is(context.Cause(ctx), ErrEnded))
			}
			return told
		}
		says.EqualSlices(t, told(), []bool{false, false, false}, "nobody waits")
		for i, want := range [][]bool{{true, false, false}, {true, true, false}} {
			go func() { _, _, _ = s.Take(t.Context(), "b", 0) }()
			says.EqualSlices(t, told(), want, "%d wait", i+1)
		}
	})
}
