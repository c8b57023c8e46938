package ship

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
)

func TestChunksAreCutByAgeAndSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &memory{key: base + "a"}
		r := newRig(t, func(o *Options) { o.MaxChunk = 10 }, a)
		a.write("12345")
		if n, next, err := r.ShipOnce(t.Context()); n != 0 || err != nil || time.Until(next) != time.Minute {
			t.Errorf("shipped %d, %v, next in %v", n, err, time.Until(next))
		}
		time.Sleep(time.Minute)
		r.once(t, 1)
		a.write("6789012345678")
		r.once(t, 1) // a whole chunk
		r.once(t, 0)
		time.Sleep(time.Minute)
		r.once(t, 1)
		r.want(t, "a", "a.@00000000000000000005", "a.@00000000000000000015")
		time.Sleep(time.Hour)
		puts, lists := r.store.Requests()
		r.once(t, 0)
		if p, l := r.store.Requests(); p != puts || l != lists || puts != 3 || lists != 1 {
			t.Errorf("a quiet source costs: %d puts, %d listings before, %d, %d after", puts, lists, p, l)
		}
	})
}

func TestFolderIsListedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sources []*memory
		for i := range 50 {
			m := &memory{key: fmt.Sprintf("%s%02d", base, i)}
			m.write("text\n")
			sources = append(sources, m)
		}
		r := newRig(t, nil, sources...)
		must.OK(t, r.store.Create(t.Context(), base+"07", strings.NewReader("te")))
		must.OK(t, r.Flush(t.Context()))
		late := &memory{key: base + "later"}
		late.write("x")
		r.sources = append(r.sources, late)
		must.OK(t, r.Flush(t.Context()))
		puts, lists := r.store.Requests()
		says.True(t, puts == 52 && lists == 1, "%d puts, %d listings", puts, lists)
		got := r.store.Object(base + "07.@00000000000000000002")
		says.True(t, string(got) == "xt\n", "went on with %q", got)
	})
}

// TestFailedResume: what a folder's listing told is told again to a source that could not take it the first time.
func TestFailedResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &memory{key: base + "a", doubts: 3}
		a.write("text\n")
		r := newRig(t, nil, a)
		must.OK(t, r.store.Create(t.Context(), base+"a", strings.NewReader("te")))
		must.OK(t, r.Flush(t.Context()))
		r.want(t, "a", "a.@00000000000000000002")
		says.Equal(t, fmt.Sprint(a.resumed), "[2 2 2 2]", "resumed at %v", a.resumed)
	})
}

// TestListingIsNamedOnce: keys are long, and the store's errors have them.
func TestListingIsNamedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &memory{key: base + "a"}
		a.write("text\n")
		r := newRig(t, func(o *Options) {
			o.Store = &storetest.Hooked{Store: &storetest.Store{}, Before: storetest.On(storetest.List,
				func(_ context.Context, prefix string) error { return fmt.Errorf("list %s: no answer", prefix) })}
		}, a)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := r.Flush(ctx)
		says.True(t, err != nil && strings.Count(err.Error(), "list ") == 1, "%v", err)
	})
}

func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault storetest.Fault
		kind  string
	}{
		"refused":    {storetest.Refuse, "backend"},
		"denied":     {storetest.Denied, "permission"},
		"broken off": {storetest.Broken, "backend"},
		"stalled":    {storetest.Stall, "timeout"},
		"lost reply": {storetest.LostReply, "backend"},
		"throttled":  {storetest.Throttled, "throttled"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &memory{key: base + "a"}
				r := newRig(t, func(o *Options) { o.PushInterval = time.Nanosecond }, a)
				faults := 2
				r.store.Fault = func(string) storetest.Fault {
					if faults--; faults >= 0 {
						return test.fault
					}
					return storetest.None
				}
				a.write("one\n")
				time.Sleep(time.Second)
				var last error
				for range 3 {
					_, _, last = r.ShipOnce(t.Context())
					a.write("more\n")
					time.Sleep(10 * time.Second)
				}
				says.OK(t, last)
				says.OK(t, r.Flush(t.Context()))
				got, err := r.store.Joined(a.key, func(key string) (string, int64) {
					w, o, _ := layout.ParseLogChunk(key)
					return w, o
				})
				says.True(t, err == nil && string(got) == string(a.data), "stored %q, %v, want %q", got, err, a.data)
				says.Equal(t, testutil.ToFloat64(r.Shipper.metrics.errors.WithLabelValues("logs", test.kind)), 2,
					"errors of kind %s", test.kind)
				warnings, recovered := 0, false
				for _, e := range r.logged.AllEntries() {
					if e.Level == logrus.WarnLevel {
						warnings++
					}
					recovered = recovered || e.Message == "shipping recovered after 2 errors"
				}
				says.True(t, recovered && (warnings == 1 || test.fault == storetest.Stall),
					"recovery logged: %t, %d warnings", recovered, warnings)
			})
		})
	}
}

func TestDeadBackendIsOnlyProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sources []*memory
		for i := range 100 {
			m := &memory{key: fmt.Sprintf("%s%02d", base, i)}
			m.write("text\n")
			sources = append(sources, m)
		}
		r := newRig(t, func(o *Options) { o.PushInterval = time.Nanosecond }, sources...)
		var dead atomic.Bool
		dead.Store(true)
		r.store.Fault = func(string) storetest.Fault {
			if dead.Load() {
				return storetest.Refuse
			}
			return storetest.None
		}
		r.Start()
		time.Sleep(time.Hour)
		puts, _ := r.store.Requests()
		// Five and those under way open the circuit, then come the probes: doubling to a minute, and once a minute from
		// there.
		says.True(t, puts >= 50 && puts <= 100, "%d puts in an hour", puts)
		warnings := 0
		for _, e := range r.logged.AllEntries() {
			if e.Level <= logrus.WarnLevel {
				warnings++
			}
		}
		says.True(t, warnings <= 130, "%d warnings in an hour", warnings)
		dead.Store(false)
		time.Sleep(2 * time.Minute)
		says.Equal(t, len(r.store.Keys()), 100, "of 100 stored after the backend came back")
		r.Shipper.Close(t.Context())
	})
}

func TestFailingSourceStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &memory{key: base + "bad", openErr: errors.New("unreadable")}, &memory{key: base + "good"}
		r := newRig(t, func(o *Options) { o.PushInterval = time.Nanosecond; o.Concurrency = 1 }, bad, good)
		r.Start()
		bad.write("x")
		for range 60 {
			good.write("line\n")
			r.Wake()
			time.Sleep(2 * time.Second)
		}
		r.Shipper.Close(t.Context())
		n := len(r.store.Keys())
		says.True(t, n >= 55, "%d chunks of the other source", n)
		if n := testutil.ToFloat64(r.Shipper.metrics.errors.WithLabelValues("logs", "source")); n < 3 || n > 12 {
			t.Errorf("%v errors of the source in 2 minutes", n)
		}
		says.True(t, !r.breaker.isOpen(), "a source that cannot be read opened the circuit")
	})
}

func TestFlushSaysWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &memory{key: base + "a"}, &memory{key: base + "b"}
		r := newRig(t, nil, a, b)
		r.store.Fault = func(key string) storetest.Fault {
			if strings.HasSuffix(key, "/a") {
				return storetest.Denied
			}
			return storetest.None
		}
		a.write("x")
		b.write("x")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		err := r.Flush(ctx)
		says.True(t, err != nil && strings.HasPrefix(err.Error(), "1 files or event streams") &&
			time.Since(start) == 10*time.Second, "after %v: %v", time.Since(start), err)
		r.want(t, "b")
	})
}

func TestCloseInterruptsAStalledPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &memory{key: base + "a"}
		r := newRig(t, func(o *Options) { o.PushInterval = time.Nanosecond }, a)
		r.store.Fault = func(string) storetest.Fault { return storetest.Stall }
		a.write("x")
		r.Start()
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		r.Shipper.Close(ctx)
		says.Equal(t, time.Since(start), 2*time.Second, "Close took")
	})
}

func TestTakenKeyThatIsNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &memory{key: base + "a"}
		r := newRig(t, func(o *Options) { o.PushInterval = time.Nanosecond }, a)
		must.OK(t, r.store.Create(t.Context(), base+"a", strings.NewReader("foreign")))
		r.listings.store = &storetest.Store{} // lists nothing
		a.write("mine\n")
		time.Sleep(time.Second)
		_, _, err := r.ShipOnce(t.Context())
		says.True(t, err != nil && strings.Contains(err.Error(), "another program"), "error %v", err)
	})
}

func TestCompressedChunks(t *testing.T) {
	for _, how := range []layout.Compression{layout.Gzip, layout.Zstd} {
		synctest.Test(t, func(t *testing.T) {
			a := &memory{key: base + "a"}
			dir := t.TempDir()
			compressed := func(o *Options) {
				o.Groups[0].Compression, o.Dir, o.PushInterval, o.MaxChunk = how, dir, time.Nanosecond, 1000
			}
			log := silent.Logger()
			r := newRig(t, compressed, a)
			faults := 0
			r.store.Fault = func(string) storetest.Fault {
				faults++
				return []storetest.Fault{storetest.LostReply, storetest.None, storetest.Refuse, storetest.Refuse,
					storetest.None, storetest.LostReply, storetest.Refuse}[faults%7]
			}
			for i := range 20 {
				a.write(strings.Repeat(fmt.Sprintf("a line that compresses, number %d\n", i), 10+i))
				_, _, _ = r.ShipOnce(t.Context())
				if i%2 == 0 {
					r.restart(t, dir, compressed, log) // what was remembered is gone, the ledger is not
				}
				time.Sleep(5 * time.Second)
			}
			must.OK(t, r.Flush(t.Context()))
			joined, overlap := decompress(t, r.store, a.key)
			says.True(t, joined == string(a.data) && overlap == 0, "%d bytes stored with %d twice, want %d",
				len(joined), overlap, len(a.data))
			// Without the ledger the last chunk's length is not known: nothing is lost, and readers see what is there
			// twice.
			r.restart(t, t.TempDir(), func(o *Options) { compressed(o); o.Dir = t.TempDir() }, log)
			r.store.Fault = nil
			a.write("the end\n")
			must.OK(t, r.Flush(t.Context()))
			joined, overlap = decompress(t, r.store, a.key)
			says.True(t, joined == string(a.data) && overlap != 0 && overlap <= 1000,
				"%d bytes stored with %d twice, want %d", len(joined), overlap, len(a.data))
		})
	}
}

// decompress joins chunks as readers do: bytes that an earlier chunk held are skipped, and counted.
func decompress(t *testing.T, store *storetest.Store, stream string) (joined string, overlap int) {
	t.Helper()
	var out []byte
	for _, key := range store.Keys() {
		of, offset, c := layout.ParseLogChunk(key)
		if of != stream {
			continue
		}
		var r io.Reader = bytes.NewReader(store.Object(key))
		switch c {
		case layout.Gzip:
			g := must.Get(gzip.NewReader(r))(t)
			r = g
		case layout.Zstd:
			z := must.Get(zstd.NewReader(r, zstd.WithDecoderConcurrency(1)))(t)
			defer z.Close()
			r = z
		}
		data := must.Get(io.ReadAll(r))(t)
		must.True(t, offset <= int64(len(out)), "gap before %s", key)
		skip := min(len(out)-int(offset), len(data))
		overlap += skip
		out = append(out, data[skip:]...)
	}
	return string(out), overlap
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &memory{key: base + "a"}
		r := newRig(t, func(o *Options) { o.MaxChunk, o.BytesPerSecond, o.PushInterval = 1000, 100, time.Nanosecond },
			a)
		a.write(strings.Repeat("x", 10000))
		r.Start()
		time.Sleep(50*time.Second + time.Millisecond)
		var sent int
		for _, key := range r.store.Keys() {
			sent += len(r.store.Object(key))
		}
		if sent < 5000 || sent > 6000 { // the first chunk is free
			t.Errorf("%d bytes sent in 50 s at 100 a second", sent)
		}
		r.Shipper.Close(t.Context())
	})
}

func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &memory{key: base + "a"}
		r := newRig(t, func(o *Options) {
			o.Groups[0].Waiting = func() (int64, time.Time) {
				_, n, oldest := a.Pending(1 << 62)
				return n, oldest
			}
		}, a)
		a.write("12345")
		time.Sleep(30 * time.Second)
		want := `# HELP rayhistory_collector_ship_behind_seconds Age of the oldest byte that is not stored yet.
# TYPE rayhistory_collector_ship_behind_seconds gauge
rayhistory_collector_ship_behind_seconds{group="logs"} 30
# HELP rayhistory_collector_ship_pending_bytes Bytes that are not stored yet.
# TYPE rayhistory_collector_ship_pending_bytes gauge
rayhistory_collector_ship_pending_bytes{group="logs"} 5
`
		says.OK(t,
			testutil.GatherAndCompare(r.metrics, strings.NewReader(want), "rayhistory_collector_ship_behind_seconds",
				"rayhistory_collector_ship_pending_bytes"))
	})
}

func TestPrepareComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &memory{key: base + "a"}
		fails := 2
		r := newRig(t, func(o *Options) {
			o.PushInterval = time.Nanosecond
			o.Prepare = func(context.Context, string) error {
				if fails--; fails >= 0 {
					return storetest.ErrFault
				}
				return nil
			}
		}, a)
		a.write("x")
		r.Start()
		time.Sleep(20 * time.Second)
		r.Shipper.Close(t.Context())
		r.want(t, "a")
		says.Equal(t, fails, -1, "prepared %d times", 2-fails)
	})
}

func TestFolder(t *testing.T) {
	for stream, want := range map[string]string{
		base + "a":             base,
		base + "logs/deeper/b": base,
		"log/lab_default/s/node_events/11dd-2026-11-20-23": "",
		"": "",
	} {
		says.Equal(t, (&Group{Logs: true}).listingPrefix(stream), want, "folder(%q)", stream)
	}
}

// TestTakenJob: a job that is taken from the middle, because those before it have to wait, leaves the others in their
// order.
func TestTakenJob(t *testing.T) {
	r := newRig(t, nil)
	w := &workers{shipper: r.Shipper, flushing: true, suspects: r.opts.Concurrency}
	for i := range 5 {
		w.jobs = append(w.jobs, job{state: &state{}, bytes: int64(i), suspect: i < 2})
	}
	for _, want := range []struct{ taken, left []int64 }{{[]int64{2}, []int64{0, 1, 3, 4}},
		{[]int64{3}, []int64{0, 1, 4}}, {[]int64{4}, []int64{0, 1}}, {nil, []int64{0, 1}}} {
		var taken, left []int64
		if j, ok := w.takeJob(t.Context()); ok {
			taken = append(taken, j.bytes)
		}
		for _, j := range w.jobs {
			left = append(left, j.bytes)
		}
		says.True(t, slices.Equal(taken, want.taken) && slices.Equal(left, want.left),
			"took %v, leaving %v, want %v and %v", taken, left, want.taken, want.left)
	}
}
