package budget

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func reserve(t *testing.T, b *Budget, p Part, bytes int64) func() {
	t.Helper()
	release := must.Get(b.Reserve(t.Context(), p, bytes))(t)
	return release
}

// TestBounds: never is more of a part set aside than it has, however many ask, and all who ask get it in turn.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{Bytes: 800, Wait: time.Hour})
		b.pools[Work].maxWaiting = 100
		var used, done atomic.Int64
		for range 100 {
			go func() {
				release, err := b.Reserve(t.Context(), Work, 100)
				if err != nil {
					t.Error(err)
					return
				}
				n := used.Add(100)
				says.True(t, n <= 300, "%d bytes are set aside, of 300", n)
				time.Sleep(time.Second)
				used.Add(-100)
				release()
				release() // does nothing
				done.Add(1)
			}()
		}
		time.Sleep(time.Minute)
		says.Equal(t, done.Load(), 100, "of 100 were answered")
		reserve(t, b, Work, 300)() // all was given back
	})
}

// TestBusy: who waits too long is refused, who leaves does not wait, and other parts are free meanwhile.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		b := New(Options{Bytes: 800, Registerer: registry})
		release := reserve(t, b, Work, 200)
		began := time.Now()
		_, err := b.Reserve(t.Context(), Work, 101)
		says.True(t, errors.Is(err, ErrBusy) && time.Since(began) == defaultWait, "%v after %s", err, time.Since(began))
		gone, leave := context.WithCancelCause(t.Context())
		left := errors.New("left")
		time.AfterFunc(time.Second, func() { leave(left) })
		says.ErrorIs(t, says.Err(b.Reserve(gone, Work, 101)), left)
		for _, p := range []Part{Answer, Parse, LargeParse} {
			reserve(t, b, p, b.Size(p))()
		}
		says.Equal(t, testutil.ToFloat64(b.refused.WithLabelValues("work", "busy")), 1, "refused")
		release()
		// What is more than the part waits for all of it, and is alone then.
		release = reserve(t, b, Work, 700)
		says.ErrorIs(t, says.Err(b.Reserve(t.Context(), Work, 1)), ErrBusy)
		release()
		says.ErrorIs(t, says.Err(b.Reserve(t.Context(), Work, 801)), ErrTooLarge)
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	})
}

// TestQueue: there are not more than so many who wait, and who wait for work leave room for other answers.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{Bytes: 256 << 20})
		for _, p := range []Part{Answer, Work} {
			most := map[Part]int64{Answer: maxWaiting, Work: 64}[p]
			release := reserve(t, b, p, b.Size(p))
			var served, refused atomic.Int64
			for range most + 10 {
				go func() {
					release, err := b.Reserve(t.Context(), p, b.Size(p))
					if err != nil {
						refused.Add(1)
						return
					}
					served.Add(1)
					release()
				}()
			}
			synctest.Wait()
			says.Equal(t, refused.Load(), 10, "%s: refused at once", names[p])
			release()
			synctest.Wait()
			says.Equal(t, served.Load(), most, "%s: served", names[p])
		}
		if small := New(Options{Bytes: 32 << 20}); small.pools[Work].maxWaiting*waiterAnswer > small.Size(Answer)/4 {
			t.Errorf("%d may wait for work", small.pools[Work].maxWaiting)
		}
	})
}

// TestOneCaller: a caller who asks for very much leaves others some, whether they have to wait for it or not.
func TestOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{Bytes: 800 << 20})
		greedy, other := WithCaller(t.Context(), "greedy"), WithCaller(t.Context(), "other")
		for _, p := range []Part{Answer, Work, Parse, LargeParse} {
			eighth := b.Size(p) / 8
			held := make(chan func(), 1000)
			for range cap(held) {
				go func() {
					if release, err := b.Reserve(greedy, p, eighth); err == nil {
						held <- release
					}
				}()
			}
			synctest.Wait()
			if want := int(2 * quarters[p]); len(held) != want {
				t.Errorf("%s: the greedy one holds %d eighths, want %d", names[p], len(held), want)
			}
			says.Equal(t, b.pools[p].waiters.Load(), max(1, b.pools[p].maxWaiting/2), "%s: those who wait", names[p])
			began := time.Now()
			if p == Answer || p == Work {
				defer must.Get(b.Reserve(other, p, 2*eighth))(t)()
			}
			time.AfterFunc(time.Second, <-held)
			defer must.Get(b.Reserve(other, p, eighth))(t)()
			if waited := time.Since(began); waited != time.Second {
				t.Errorf("%s: the other one waited %v", names[p], waited)
			}
			time.Sleep(time.Minute)
			for len(held) > 0 {
				(<-held)()
			}
			if n := len(b.pools[p].callers); n != 1 {
				t.Errorf("%s: %d callers are known, want the one that holds some", names[p], n)
			}
		}
	})
}

func TestNoBudget(t *testing.T) {
	var b *Budget
	reserve(t, b, Work, 1<<50)()
	says.True(t, b.Size(Parse) >= 1<<60, "no budget has a bound")
}
