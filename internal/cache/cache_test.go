package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestDropsThoseUsedLongestAgo compares a cache with a list of its keys in order of use.
func TestDropsThoseUsedLongestAgo(t *testing.T) {
	const most = 20
	random := rand.New(rand.NewPCG(1, 2))
	c := New[int, int64](most, Forever, func(cost int64) int64 { return cost })
	var keys []int // the one used last at the end
	costs := map[int]int64{}
	remove := func(key int) {
		for i, k := range keys {
			if k == key {
				keys = append(keys[:i:i], keys[i+1:]...)
			}
		}
		delete(costs, key)
	}
	for step := range 20_000 {
		key := random.IntN(12)
		switch random.IntN(4) {
		case 0:
			c.Delete(key)
			remove(key)
		case 1:
			cost := random.Int64N(most + 3)
			c.Put(key, cost)
			if remove(key); cost <= most {
				keys, costs[key] = append(keys, key), cost
			}
			for sum(costs) > most {
				remove(keys[0])
			}
		default:
			got, ok := c.Get(key)
			want, known := costs[key]
			must.True(t, got == want && ok == known, "step %d, key %d: %d, %v; want %d, %v", step, key, got, ok, want,
				known)
			if known {
				remove(key)
				keys, costs[key] = append(keys, key), want
			}
		}
		must.True(t, c.Len() == len(keys) && c.total == sum(costs), "step %d: %d values of cost %d, want %d of %d",
			step, c.Len(), c.total, len(keys), sum(costs))
	}
}

func sum(costs map[int]int64) (n int64) {
	for _, cost := range costs {
		n += cost
	}
	return n
}

func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string, int](1, time.Minute, nil)
		c.Put("a", 1)
		time.Sleep(time.Minute - time.Nanosecond)
		v, ok := c.Get("a")
		says.True(t, v == 1 && ok, "%d, %v just before its end", v, ok)
		time.Sleep(time.Nanosecond) // a use before does not make it younger
		v, ok = c.Get("a")
		says.True(t, !ok && c.Len() == 0, "%d after its end", v)
	})
}

// TestLoad: a value is loaded once for all who ask meanwhile, and kept; an error and a panic are told to them and not
// kept.
func TestLoad(t *testing.T) {
	broken := errors.New("broken")
	for name, outcome := range map[string]func() (int, error){
		"value": func() (int, error) { return 7, nil },
		"error": func() (int, error) { return 0, broken },
		"panic": func() (int, error) { panic(broken) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New[string, int](1, Forever, nil)
				var loads, right atomic.Int64
				load := func(context.Context) (int, error) {
					loads.Add(1)
					time.Sleep(time.Second)
					return outcome()
				}
				for range 10 {
					go func() {
						if v, err := c.Load(t.Context(), "a", load); (err == nil) == (name == "value") &&
							(v == 7) == (err == nil) {
							right.Add(1)
						}
					}()
				}
				time.Sleep(2 * time.Second)
				says.True(t, loads.Load() == 1 && right.Load() == 10 && len(c.loads) == 0,
					"%d loads, %d of 10 answers are right, %d loads are left", loads.Load(), right.Load(), len(c.loads))
				_, _ = c.Load(t.Context(), "a", load)
				want := map[bool]int64{true: 1, false: 2}[name == "value"]
				says.True(t, loads.Load() == want, "%d loads after another request, want %d", loads.Load(), want)
			})
		})
	}
}

// TestLoadIsLeft: a caller need not wait for a load to its end, and a load that nobody waits for is told so.
func TestLoadIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string, int](1, Forever, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := false
		_, err := c.Load(ctx, "a", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended = true
			return 0, ctx.Err()
		})
		synctest.Wait()
		says.True(t, errors.Is(err, context.DeadlineExceeded) && ended, "%v; the load ended: %v", err, ended)
	})
}

// TestLeftLoadComesLate: what a load brings that went on when nobody waited is kept, but not in the place of what was
// begun after it.
func TestLeftLoadComesLate(t *testing.T) {
	for name, again := range map[string]bool{"asked once": false, "asked again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New[string, int](1, Forever, nil)
				after := func(wait time.Duration, value int) func(context.Context) (int, error) {
					return func(context.Context) (int, error) { time.Sleep(wait); return value, nil }
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				v, err := c.Load(ctx, "a", after(time.Minute, 1))
				says.True(t, errors.Is(err, context.DeadlineExceeded), "%d, %v", v, err)
				want := 1
				if again {
					if want, _ = c.Load(t.Context(), "a", after(time.Second, 2)); want != 2 {
						t.Errorf("%d of the second", want)
					}
				}
				time.Sleep(time.Minute)
				if v, ok := c.Get("a"); v != want || !ok {
					t.Errorf("%d, %v is kept, want %d", v, ok, want)
				}
			})
		})
	}
}
