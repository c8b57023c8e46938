package ship

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// sixBad are logs that a store does not take, as refuses says.
func sixBad() (bad []*memory, refuses func(storetest.Fault) func(string) storetest.Fault) {
	for i := range 6 {
		bad = append(bad, &memory{key: fmt.Sprintf("%sbad%d", base, i)})
	}
	return bad, func(fault storetest.Fault) func(string) storetest.Fault {
		return func(key string) storetest.Fault {
			if strings.Contains(key, "/bad") {
				return fault
			}
			return storetest.None
		}
	}
}

// storedAfter waits until all that was written to m is stored, and says how long that took; it gives up after limit.
func storedAfter(m *memory, limit time.Duration) time.Duration {
	began := time.Now()
	for time.Since(began) < limit {
		m.mu.Lock()
		done := m.pos == int64(len(m.data))
		m.mu.Unlock()
		if done {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(began)
}

// TestRefusedLogsStopNoOther: six logs are refused, whatever the reason, and nothing else grows for a while. What grows
// then is stored within twice the push interval, again and again; and the end ships all but the refused, and names
// them.
func TestRefusedLogsStopNoOther(t *testing.T) {
	for name, fault := range map[string]storetest.Fault{
		"name refused": storetest.Unwanted, "not permitted": storetest.Denied, "status 500": storetest.Refuse,
		"broken off": storetest.Broken, "stalled": storetest.Stall, "throttled": storetest.Throttled,
	} {
		for _, quiet := range []time.Duration{30 * time.Second, 3 * time.Minute, time.Hour} {
			t.Run(fmt.Sprintf("%s, quiet for %s", name, quiet), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					bad, refuses := sixBad()
					good, late := &memory{key: base + "good"}, &memory{key: base + "late"}
					r := newRig(t, nil, append(bad, good, late)...)
					r.store.Fault = refuses(fault)
					r.Start()
					good.write("first\n")
					r.Wake()
					time.Sleep(90 * time.Second)
					for _, b := range bad {
						b.write("text\n")
					}
					r.Wake()
					time.Sleep(quiet)
					for i := range 5 {
						good.write("another line\n")
						r.Wake()
						took := storedAfter(good, time.Hour)
						says.True(t, took <= 2*DefaultPushInterval, "line %d is stored after %v", i, took)
						time.Sleep(quiet / 3)
					}
					late.write("the last line\n")
					good.write("the last line\n")
					closing, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					r.Shipper.Close(closing)
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					err := r.Flush(ctx)
					says.True(t, err != nil && strings.HasPrefix(err.Error(), "6 files or event streams") &&
						strings.Contains(err.Error(), base+"bad0") && strings.Contains(err.Error(), base+"bad5"),
						"Flush: %v", err)
					for _, m := range []*memory{good, late} {
						says.Equal(t, storedOf([]*memory{m}), int64(len(m.data)),
							"%s: %d of %d bytes are stored at the end", m.key, m.pos, len(m.data))
					}
				})
			})
		}
	}
}

// TestRefusedLogIsNamed: a log that is refused again and again is told of, in one warning and a metric, is tried ever
// more rarely, and is stored once the store takes it.
func TestRefusedLogIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, refuses := sixBad()
		r := newRig(t, func(o *Options) { o.PushInterval = time.Second }, bad[:1]...)
		var takes atomic.Bool
		r.store.Fault = func(key string) storetest.Fault {
			if takes.Load() {
				return storetest.None
			}
			return refuses(storetest.Unwanted)(key)
		}
		bad[0].write("text\n")
		r.Start()
		time.Sleep(24 * time.Hour)
		puts, _ := r.store.Requests()
		says.True(t, puts >= 24 && puts <= 24*8, "%d puts in a day", puts)
		refused := r.metric(t, "refused")
		says.Equal(t, refused, 1, "refused")
		named := 0
		for _, e := range r.logged.AllEntries() {
			if e.Level == logrus.WarnLevel && e.Data["object"] == bad[0].key {
				named++
			}
		}
		says.Equal(t, named, 1, "warnings that name it")
		takes.Store(true)
		time.Sleep(time.Hour)
		r.want(t, "bad0")
		says.Equal(t, r.metric(t, "refused"), 0, "refused after all")
		r.Shipper.Close(t.Context())
	})
}

func (r *rig) metric(t *testing.T, name string) float64 {
	t.Helper()
	families := must.Get(r.metrics.Gather())(t)
	for _, f := range families {
		if f.GetName() == "rayhistory_collector_ship_"+name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestBodiesThatAreTooLarge: a proxy that takes at most so much gets smaller chunks, of whatever large log; nobody
// waits for that, and nothing is lost.
func TestBodiesThatAreTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var large []*memory
		for i := range 6 {
			m := &memory{key: fmt.Sprintf("%slarge%d", base, i)}
			m.write(strings.Repeat("0123456789abcde\n", 10<<20/16))
			large = append(large, m)
		}
		small := &memory{key: base + "small"}
		r := newRig(t, nil, append(large, small)...)
		r.store.MaxSize = 1_000_000
		r.Start()
		time.Sleep(30 * time.Second)
		small.write("a line\n")
		r.Wake()
		took := storedAfter(small, time.Hour)
		says.True(t, took <= 2*DefaultPushInterval, "the small log is stored after %v", took)
		for _, m := range large {
			storedAfter(m, 5*time.Minute)
			got, err := r.store.Joined(m.key, func(key string) (string, int64) {
				w, o, _ := layout.ParseLogChunk(key)
				return w, o
			})
			says.True(t, err == nil && string(got) == string(m.data), "%s: %d of %d bytes, %v", m.key, len(got),
				len(m.data), err)
		}
		// 12 chunks of half a MiB would do; before they are known to, each log may be tried in larger ones.
		puts, _ := r.store.Requests()
		says.True(t, puts <= 6*(21+5), "%d puts", puts)
		n := testutil.ToFloat64(r.Shipper.metrics.errors.WithLabelValues("logs", "too_large"))
		says.True(t, n >= 4 && n <= 6*4, "%v errors of this kind", n)
		r.Shipper.Close(t.Context())
	})
}

// TestChunksGrowAgain: when a proxy allows more, an hour later chunks are larger again.
func TestChunksGrowAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &memory{key: base + "a"}
		r := newRig(t, func(o *Options) { o.MaxChunk = 400_000; o.PushInterval = time.Second }, a)
		r.store.MaxSize = 100_000
		r.Start()
		for range 5 {
			a.write(strings.Repeat("x", 400_000))
			r.Wake()
			storedAfter(a, time.Minute)
		}
		r.store.MaxSize = 0
		for range 5 {
			time.Sleep(time.Hour + time.Minute)
			a.write(strings.Repeat("x", 400_000))
			r.Wake()
			storedAfter(a, time.Minute)
		}
		r.Shipper.Close(t.Context())
		keys := r.store.Keys()
		says.Equal(t, len(r.store.Object(keys[len(keys)-1])), 400_000, "the last chunk")
	})
}

// TestSlowLink: six logs that take the link of 20 KB/s an hour hold up no small one, and make headway.
func TestSlowLink(t *testing.T) {
	for _, push := range []time.Duration{time.Minute, 10 * time.Second} {
		t.Run(push.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var large []*memory
				for i := range 6 {
					m := &memory{key: fmt.Sprintf("%slarge%d", base, i)}
					m.write(strings.Repeat("0123456789abcde\n", 24<<20/16))
					large = append(large, m)
				}
				small := &memory{key: base + "small"}
				r := newRig(t, func(o *Options) { o.PushInterval = push }, append(large, small)...)
				r.store.Link = storetest.NewLink(20_000)
				r.Start()
				time.Sleep(30 * time.Second)
				for range 10 {
					small.write("a line\n")
					r.Wake()
					took := storedAfter(small, time.Hour)
					says.True(t, took <= 2*push, "the small log is stored after %v", took)
				}
				began := time.Now()
				before := storedOf(large)
				time.Sleep(20 * time.Minute)
				rate := float64(storedOf(large)-before) / time.Since(began).Seconds()
				says.True(t, rate >= 12_000, "%.0f bytes a second are stored of the large logs", rate)
				small.write("the last line\n")
				closing, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				r.Shipper.Close(closing)
				before = storedOf(large)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				err := r.Flush(ctx)
				says.True(t, err != nil && strings.HasPrefix(err.Error(), "6 files or event streams"), "Flush: %v", err)
				says.Equal(t, storedOf([]*memory{small}), int64(len(small.data)),
					"the small log is not stored at the end")
				n := storedOf(large) - before
				says.True(t, n >= 100_000, "%d bytes of the large logs were stored in the last 20 s", n)
			})
		})
	}
}

// TestFlushOverASlowLink: a collector that learns only at its end how slow the link is ships the small logs, and some
// of the large one.
func TestFlushOverASlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := &memory{key: base + "a-large"}
		large.write(strings.Repeat("0123456789abcde\n", 12<<20/16))
		sources := []*memory{large}
		for i := range 20 {
			m := &memory{key: fmt.Sprintf("%ssmall%d", base, i)}
			m.write("a line\n")
			sources = append(sources, m)
		}
		r := newRig(t, func(o *Options) { o.Concurrency = 1 }, sources...)
		r.store.Link = storetest.NewLink(20_000)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := r.Flush(ctx)
		says.True(t, err != nil && strings.HasPrefix(err.Error(), "1 files or event streams"), "Flush: %v", err)
		says.True(t, large.pos >= 64<<10, "%d bytes of the large log are stored", large.pos)
	})
}

func storedOf(sources []*memory) (n int64) {
	for _, m := range sources {
		m.mu.Lock()
		n += m.pos
		m.mu.Unlock()
	}
	return n
}

// TestPutUnderWayHoldsUpNoOther: while one put hangs, others go on.
func TestPutUnderWayHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, refuses := sixBad()
		good := &memory{key: base + "good"}
		r := newRig(t, func(o *Options) { o.PushInterval = time.Second }, append(bad[:3], good)...)
		r.store.Fault = refuses(storetest.Stall)
		for _, b := range bad[:3] {
			b.write("text\n")
		}
		r.Start()
		time.Sleep(5 * time.Second)
		good.write("a line\n")
		r.Wake()
		took := storedAfter(good, time.Hour)
		says.True(t, took <= 3*time.Second, "stored after %v", took)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Shipper.Close(ctx)
	})
}

// TestStoreThatIsIllAgain: logs that were refused while others were stored do not hide that later nothing is stored at
// all.
func TestStoreThatIsIllAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, refuses := sixBad()
		var sources []*memory
		for i := range 50 {
			sources = append(sources, &memory{key: fmt.Sprintf("%s%02d", base, i)})
		}
		r := newRig(t, func(o *Options) { o.PushInterval = time.Second }, append(bad, sources...)...)
		var dead atomic.Bool
		r.store.Fault = func(key string) storetest.Fault {
			if dead.Load() {
				return storetest.Refuse
			}
			return refuses(storetest.Refuse)(key)
		}
		r.store.ListFault = func(string) error {
			if dead.Load() {
				return errors.New("nobody is there")
			}
			return nil
		}
		r.Start()
		for range 10 {
			for _, m := range append(bad, sources...) {
				m.write("text\n")
			}
			r.Wake()
			time.Sleep(time.Minute)
		}
		dead.Store(true)
		for _, m := range append(bad, sources...) {
			m.write("text\n")
		}
		r.Wake()
		_, before := r.store.Requests()
		time.Sleep(time.Hour)
		_, lists := r.store.Requests()
		says.True(t, lists-before <= 150, "%d listings in an hour", lists-before)
		dead.Store(false)
		time.Sleep(2 * time.Minute)
		for _, m := range sources {
			says.Equal(t, storedOf([]*memory{m}), int64(len(m.data)), "%s is not stored", m.key)
		}
		r.Shipper.Close(t.Context())
	})
}

// TestLimitOfAnotherStream: the size at which another stream's chunks passed lately holds for a stream that never had a
// limit of its own.
func TestLimitOfAnotherStream(t *testing.T) {
	now := time.Now()
	s := &Shipper{opts: Options{MaxChunk: 8 << 20}}
	s.passedLimit.Store(&chunkLimit{bytes: 1 << 20, since: now})
	says.Equal(t, s.chunkBytes(now.Add(limitAge-1), &chunkLimit{}), 1<<20, "lately")
	says.Equal(t, s.chunkBytes(now.Add(limitAge), &chunkLimit{}), 8<<20, "long ago")
	says.Equal(t, s.chunkBytes(now, &chunkLimit{since: now}), 8<<20, "a stream that had one")
}
