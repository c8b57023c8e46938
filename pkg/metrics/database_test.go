package metrics

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

func (b *bucket) database(fresh time.Duration, maxBytes int64) *Database {
	return NewDatabase(b.store, func(ctx context.Context) ([]Hour, error) {
		return List(ctx, b.store, "log", ref)
	}, fresh, maxBytes)
}

// spelled is a sample as a text, with its time in seconds.
func spelled(t int64, v float64) string {
	if value.IsStaleNaN(v) {
		return fmt.Sprintf("%g ends", float64(t)/1000)
	}
	return fmt.Sprintf("%g %v", float64(t)/1000, v)
}

func read1(series *Series, mint, maxt int64) (got []string) {
	for it := series.Iterator(mint, maxt); it.Next() == chunkenc.ValFloat; {
		t, v := it.At()
		got = append(got, spelled(t, v))
	}
	return got
}

func named(t *testing.T, name string) *labels.Matcher {
	t.Helper()
	return labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)
}

// selectFrom gives what one selection finds.
func selectFrom(t *testing.T, d *Database, mint, maxt int64, matchers ...*labels.Matcher) ([]*Series, []error, error) {
	t.Helper()
	found, damaged, err := d.Select(t.Context(), &QueryMemory{}, Selection{Mint: mint, Maxt: maxt, Matchers: matchers})
	if err != nil {
		return nil, damaged, err
	}
	return found[0], damaged, nil
}

// random stores hours of two nodes, in which series come and go, reads fail, collectors restart and nodes leave, and
// gives the samples that a Prometheus would have of them, stale markers too, by series.
func random(t *testing.T, b *bucket, r *rand.Rand) map[string][]string {
	t.Helper()
	want := make(map[string][]string)
	begin := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	var last []func(next int64) // for each node: it is not read again until next
	var newest int64
	for _, node := range []rayid.Node{{0xaa}, {0xbb}} {
		exposed := make(map[string]bool)
		key := func(name string) string {
			return labels.FromStrings(model.MetricNameLabel, name, "instance", node.String()[:2], "job", "ray").String()
		}
		var before, pause int64 // the last read, and the longest time between two of its hour
		leave := func(next int64) {
			gone := before + 2*min(pause, maxPause)
			for name := range exposed {
				if gone < next {
					want[key(name)] = append(want[key(name)], spelled(gone, staleMarker))
					delete(exposed, name)
				}
			}
		}
		last = append(last, leave)
		for hour := range 4 {
			if hour == 2 && r.IntN(3) == 0 {
				continue
			}
			at := begin.Add(time.Duration(hour) * time.Hour)
			toTheEnd := r.IntN(2) == 0
			var reads []func(*samples.Encoder)
			target := 0 // of the table, in the read under way
			for read := range 40 {
				at = at.Add(time.Duration(1000+r.IntN(60_000)) * time.Millisecond)
				if read == 39 && toTheEnd {
					at = begin.Add(time.Duration(hour)*time.Hour + 59*time.Minute)
				}
				seconds := at.UnixMilli()
				if read == 0 {
					leave(seconds)
					pause = 0
				} else {
					pause = max(pause, seconds-before)
				}
				before, newest = seconds, max(newest, seconds)
				now := map[string]float64{samples.Up: 1}
				switch {
				case r.IntN(15) == 0:
					now[samples.Up] = 0
					reads = append(reads, func(e *samples.Encoder) {
						e.Begin(target, time.UnixMilli(seconds))
						e.Fail()
					})
				default:
					for i := range 6 {
						if r.IntN(4) > 0 {
							now[fmt.Sprintf("ray_%d", i)] = []float64{0, 1, math.Inf(1), math.NaN(), 0.1}[r.IntN(5)]
						}
					}
					// To Prometheus a label with an empty value is none: the same series, even where both are exposed.
					spellings := [][]samples.Label{nil, {{Name: "empty"}}}[r.IntN(2):]
					restart := r.IntN(15) == 0 && len(reads) > 0
					reads = append(reads, func(e *samples.Encoder) {
						if restart {
							target = 1
							e.Start([][]samples.Label{{{Name: "job", Value: "x"}},
								{{Name: "instance", Value: node.String()[:2]}, {Name: "job", Value: "ray"}}})
						}
						e.Begin(target, time.UnixMilli(seconds))
						for name, v := range now {
							for _, own := range spellings {
								if spelling := fmt.Append(nil, name, own); name != samples.Up &&
									!e.Sample(spelling, v) {
									e.Add(spelling, name, own, v)
								}
							}
						}
						e.End()
					})
				}
				for name := range exposed {
					if _, still := now[name]; !still {
						want[key(name)] = append(want[key(name)], spelled(seconds, staleMarker))
						delete(exposed, name)
					}
				}
				for name, v := range now {
					want[key(name)] = append(want[key(name)], spelled(seconds, v))
					exposed[name] = true
				}
			}
			b.hour(node, begin.Add(time.Duration(hour)*time.Hour), reads...)
		}
	}
	for _, leave := range last {
		leave(newest)
	}
	return want
}

// TestSeries: series read from blocks in memory, and from those read for a query alone, have the samples that a
// Prometheus would have.
func TestSeries(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := newBucket(t)
		want := random(t, b, r)
		for name, d := range map[string]*Database{"kept": b.database(0, 64<<20), "not kept": b.database(0, 16<<10)} {
			for range 2 {
				got := make(map[string][]string)
				for i := range 6 {
					found, damaged, err := selectFrom(t, d, 0, math.MaxInt64, named(t, fmt.Sprintf("ray_%d", i)))
					must.True(t, err == nil && len(damaged) == 0, "%v %v %v", name, err, damaged)
					for _, s := range found {
						got[s.Labels().String()] = read1(s, 0, math.MaxInt64)
						seeks(t, s, r)
					}
				}
				found, _, err := selectFrom(t, d, 0, math.MaxInt64, named(t, samples.Up))
				must.OK(t, err)
				for _, s := range found {
					got[s.Labels().String()] = read1(s, 0, math.MaxInt64)
				}
				must.True(t, len(got) == len(want), "seed %d, %s: %d series, want %d", seed, name, len(got), len(want))
				for series, samples := range want {
					must.True(t, slices.Equal(got[series], samples), "seed %d, %s: %s has\n%q, want\n%q", seed, name,
						series, got[series], samples)
				}
			}
			says.Equal(t, d.keepsNone.Load(), name == "not kept", "%s: %d bytes are kept", name, d.Bytes())
		}
	}
}

// seeks: however one gets to a time, the sample there is the same.
func seeks(t *testing.T, s *Series, r *rand.Rand) {
	t.Helper()
	type sample struct {
		t int64
		v uint64
	}
	var all []sample
	for it := s.Iterator(0, math.MaxInt64); it.Next() == chunkenc.ValFloat; {
		at, v := it.At()
		all = append(all, sample{at, math.Float64bits(v)})
	}
	for range 20 {
		from := r.IntN(len(all))
		mint, maxt := all[from].t, all[from+r.IntN(len(all)-from)].t
		it := s.Iterator(mint, maxt)
		at := from - 1
		for range 30 {
			var kind chunkenc.ValueType
			if r.IntN(2) == 0 {
				kind = it.Next()
				at++
			} else {
				to := mint + r.Int64N(maxt-mint+2)
				kind = it.Seek(to)
				for at = max(at, from); at < len(all) && all[at].t < to; at++ {
				}
			}
			if at >= len(all) || all[at].t > maxt {
				must.True(t, kind == chunkenc.ValNone, "goes on after the end")
				break
			}
			if got, v := it.At(); kind != chunkenc.ValFloat || got != all[at].t || math.Float64bits(v) != all[at].v ||
				it.AtT() != got {
				t.Fatalf("at %d is %d %v, want %v", at, got, v, all[at])
			}
		}
	}
}

// TestClockSetBack: reads whose times were there before change no sample of these times and are no samples themselves,
// and later ones have the values that they had.
func TestClockSetBack(t *testing.T) {
	b := newBucket(t)
	node := rayid.Node{0xaa}
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return hour.Add(time.Duration(seconds) * time.Second) }
	begin := func(e *samples.Encoder) {
		e.Start([][]samples.Label{{{Name: "instance", Value: "aa"}, {Name: "job", Value: "ray"}}})
	}
	b.hour(node, hour, read(at(100), map[string]float64{"ray_a": 1}),
		read(at(115), map[string]float64{"ray_a": 2, "ray_b": 7}),
		begin, read(at(90), map[string]float64{"ray_a": 3, "ray_b": 7}), read(at(105), map[string]float64{"ray_a": 4}),
		read(at(120), map[string]float64{"ray_a": 4}), read(at(135), map[string]float64{"ray_a": 5}),
		begin, read(at(50), map[string]float64{"ray_a": 6}))
	spell := func(seconds int, v float64) string { return spelled(at(seconds).UnixMilli(), v) }
	for name, want := range map[string][]string{
		"ray_a": {spell(100, 1), spell(115, 2), spell(120, 4), spell(135, 5)},
		"ray_b": {spell(115, 7), spell(120, staleMarker)},
		"up":    {spell(100, 1), spell(115, 1), spell(120, 1), spell(135, 1)},
	} {
		series, damaged, err := selectFrom(t, b.database(0, 1<<20), hour.UnixMilli(), hour.Add(time.Hour).UnixMilli(),
			named(t, name))
		must.True(t, err == nil && len(damaged) == 0 && len(series) == 1, "%v %v %v %v", name, series, damaged, err)
		says.EqualSlices(t, read1(series[0], hour.UnixMilli(), hour.Add(time.Hour).UnixMilli()), want, name)
	}
	text, damaged := b.export()
	var got []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); strings.HasPrefix(line, "ray_a") {
			got = append(got, words[1]+"@"+words[2])
		}
	}
	want := fmt.Sprintf("[1@%d.000 2@%d.000 4@%d.000 5@%d.000]", at(100).Unix(), at(115).Unix(), at(120).Unix(),
		at(135).Unix())
	says.True(t, fmt.Sprint(got) == want && len(damaged) == 0, "exported are %v, %v, want %s", got, damaged, want)
}

// TestJoined: chunks of an ended session that are joined after they were listed are found again, whether hours are kept
// or not.
func TestJoined(t *testing.T) {
	node, hour := rayid.Node{0xaa}, time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	for _, maxBytes := range []int64{1 << 20, 4 << 10} {
		b := newBucket(t)
		first := hour.Add(59 * time.Minute)
		b.hour(node, hour, read(first, map[string]float64{"ray_a": 1}))
		second := b.hour(node, hour.Add(time.Hour), read(hour.Add(time.Hour), map[string]float64{"ray_a": 2}),
			read(hour.Add(61*time.Minute), map[string]float64{"ray_a": 3}))
		b.store.Age(2 * lifetime.LateWrites)
		d := b.database(0, maxBytes)
		samplesUntil := func(maxt time.Time) []string {
			t.Helper()
			series, damaged, err := selectFrom(t, d, 0, maxt.UnixMilli(), named(t, "ray_a"))
			must.True(t, err == nil && len(damaged) == 0 && len(series) == 1, "%v %v %v", series, damaged, err)
			return read1(series[0], 0, maxt.UnixMilli())
		}
		got := samplesUntil(first)
		must.True(t, len(got) == 1, got)
		var joined []byte
		for _, key := range second {
			joined = append(joined, b.store.Object(key)...)
			must.OK(t, b.store.Delete(t.Context(), key))
		}
		b.put(second[0], string(joined))
		for range 2 {
			if got := samplesUntil(hour.Add(2 * time.Hour)); len(got) != 3 {
				t.Errorf("with %d bytes: got %q after chunks were joined", maxBytes, got)
			}
		}
	}
}

// TestLateWrites: what is stored within a minute after the listing of an ended session is found, later listings are
// kept for some minutes: a session that seemed to have ended may go on.
func TestLateWrites(t *testing.T) {
	b := newBucket(t)
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	d := b.database(0, 1<<20)
	hours := func() int {
		t.Helper()
		d.listed = d.listed.Add(-maxListingAge)
		return len(must.Get(d.Hours(t.Context()))(t))
	}
	for n := range 3 {
		got := hours()
		says.True(t, got == n, "%d hours are listed, %d are stored", got, n)
		b.hour(rayid.Node{byte(n)}, hour, read(hour, map[string]float64{"ray_a": 1}))
	}
	b.store.Age(time.Hour)
	hours()
	_, before := b.store.Requests()
	hours()
	_, after := b.store.Requests()
	says.True(t, after == before, "what is not expected to change is listed again")
	b.hour(rayid.Node{3}, hour.Add(time.Hour), read(hour.Add(time.Hour), map[string]float64{"ray_a": 1}))
	d.listed = d.listed.Add(-finalListingAge)
	says.Equal(t, hours(), 4, "hours of a session that went on")
}

// TestListingOfOthers: who waits for another caller's listing waits no longer than it may.
func TestListingOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDatabase(nil, func(ctx context.Context) ([]Hour, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, 0, 1<<20)
		first, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = d.Hours(first) }()
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		says.ErrorIs(t, says.Err(d.Hours(ctx)), context.DeadlineExceeded)
	})
}

// TestIntervalNotShown: hours that do not show how often they were read are not read again for that before they are
// listed again.
func TestIntervalNotShown(t *testing.T) {
	b := newBucket(t)
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	one := func(at time.Duration) func(*samples.Encoder) {
		return read(hour.Add(at), map[string]float64{"ray_a": 1})
	}
	b.hour(rayid.Node{0xaa}, hour, one(0))
	d := b.database(time.Hour, 1<<20)
	ask := func(want time.Duration) int64 {
		t.Helper()
		says.Equal(t, must.Get(d.Interval(t.Context()))(t), want)
		return b.store.Read.Load()
	}
	first := ask(0)
	b.hour(rayid.Node{0xbb}, hour, one(0), one(7*time.Second))
	again := ask(0)
	says.True(t, again == first && first != 0, "%d bytes are read, then %d", first, again)
	must.OK(t, d.markOutdated(t.Context()))
	ask(7 * time.Second)
}

// asked counts the requests for objects, and hang makes them wait for ever.
type asked struct {
	*storetest.Store
	hang  bool
	times atomic.Int64
}

func (a *asked) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if a.times.Add(1); a.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return a.Store.Get(ctx, key, offset, length)
}

// TestIntervalInTime: an hour that does not show in time how often it was read, or not in a share of the memory, is
// read once for all that ask, and again a minute later, as the store may have been slow.
func TestIntervalInTime(t *testing.T) {
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	ask := func(t *testing.T, hang bool) {
		b := newBucket(t)
		b.hour(rayid.Node{0xaa}, hour, func(e *samples.Encoder) {
			e.Begin(0, hour)
			name := "ray_" + strings.Repeat("a", 1<<19)
			e.Add([]byte(name), name, nil, 1)
			e.End()
		})
		store := &asked{Store: b.store, hang: hang}
		d := b.database(0, 1<<20)
		d.store = store
		minute := time.Now().Minute()
		for range 3 {
			var group errgroup.Group
			for range 3 {
				group.Go(func() error {
					interval, err := d.Interval(t.Context())
					if interval != 0 {
						return fmt.Errorf("the interval is %s", interval)
					}
					return err
				})
			}
			must.OK(t, group.Wait())
		}
		n := store.times.Load()
		says.True(t, n == 1 || time.Now().Minute() != minute, "the hour is read %d times", n)
		if !hang {
			return
		}
		time.Sleep(time.Minute)
		if _, err := d.Interval(t.Context()); err != nil || store.times.Load() != 2 {
			t.Errorf("a minute later the hour is read %d times, %v", store.times.Load(), err)
		}
	}
	t.Run("a long line", func(t *testing.T) { ask(t, false) })
	t.Run("a store that hangs", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { ask(t, true) }) })
}

// TestDatabases: those used longest ago are forgotten when the others do not fit; a session that ended is read again.
func TestDatabases(t *testing.T) {
	b := newBucket(t)
	random(t, b, rand.New(rand.NewPCG(1, 1)))
	d := NewDatabases(b.store, "log", 8<<20, nil)
	of := func(i int) layout.Session {
		s := ref
		if i > 0 {
			s.Name += fmt.Sprint(i) // of which nothing is stored
		}
		return s
	}
	read := func(kept *Database) {
		t.Helper()
		if _, _, err := selectFrom(t, kept, 0, math.MaxInt64, named(t, samples.Up)); err != nil {
			t.Fatal(err)
		}
	}
	first := d.Of(of(0), false)
	read(first)
	if d.Of(of(1), false); d.Of(of(0), false) != first || d.Bytes() == 0 {
		t.Error("a session that fits was forgotten")
	}
	says.True(t, d.Of(of(0), true) != first, "a session that runs is taken for one that ended")
	running := d.Of(of(0), true)
	read(running)
	d.maxBytes = running.Bytes() + openBytes // as if less were allowed: only the one used last fits beside another
	d.Of(of(1), false)
	says.True(t, d.Of(of(0), true) == running && d.Of(of(0), false) != first,
		"not the one used longest ago was forgotten")
}

// TestGone: a node that leaves is gone when two reads are missing, in any range of time, and the last one keeps its
// last values. While the session runs, the rest of what a node read may not be stored yet.
func TestGone(t *testing.T) {
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return hour.Add(time.Duration(seconds) * time.Second) }
	for _, c := range []struct {
		fresh       time.Duration
		until, maxt int
		gone        bool
	}{
		{0, 60, 600, false}, {0, 75, 600, true}, {0, 900, 60, true}, {0, 900, 59, false},
		{maxListingAge, 600, 600, false}, {maxListingAge, 900, 600, true},
	} {
		b := newBucket(t)
		reads := func(until int) (list []func(*samples.Encoder)) {
			for i := 0; i <= until; i += 15 {
				list = append(list, read(at(i), map[string]float64{"ray_a": 1}))
			}
			return list
		}
		b.hour(rayid.Node{0xaa}, hour, reads(30)...)
		b.hour(rayid.Node{0xbb}, hour, reads(c.until)...)
		got, _ := all(t, b.database(c.fresh, 1<<20), 0, at(c.maxt).UnixMilli(), named(t, "ray_a"))
		for series, samples := range got {
			left := strings.Contains(series, `instance="aa"`)
			says.Equal(t, strings.HasSuffix(samples[len(samples)-1], "ends"), left && c.gone,
				"%+v: %s has %q", c, series, samples)
		}
		says.Equal(t, len(got), 2, "%+v: %v", c, got)
	}
}

// TestEqualSeries: of series that are the same for Prometheus, one that is still exposed counts when another is gone.
func TestEqualSeries(t *testing.T) {
	b := newBucket(t)
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	from := hour.UnixMilli()
	lines := `{"start":1,"targets":[{"instance":"aa"}]}` + "\n" +
		`{"from":0,"target":0,"series":[["m"],["m","e",""],["m","f",""]]}` + "\n"
	for i, read := range []string{
		`"i":[0,0,0],"v":[1,2,3]`, `"i":[],"v":[],"gone":[2]`, `"i":[],"v":[],"gone":[0]`, `"i":[0],"v":[4]`,
		`"i":[],"v":[],"gone":[0]`,
		`"i":[],"v":[],"gone":[1]`, `"i":[],"v":[],"gone":[1]`, `"i":[2],"v":[5]`, `"failed":1`,
		`"i":[],"v":[],"gone":[2]`, `"i":[1],"v":[6]`,
	} {
		lines += fmt.Sprintf(`{"t":%d,"target":0,%s}`+"\n", from+int64(i)*1000, read)
	}
	b.put(layout.MetricsKey("log", ref, rayid.Node{0xaa}, hour), lines)
	series, damaged, err := selectFrom(t, b.database(0, 1<<20), from, from+60_000, named(t, "m"))
	must.True(t, err == nil && len(damaged) == 0 && len(series) == 1, "%v %v %v", series, damaged, err)
	var got []string
	for it := series[0].Iterator(from, from+60_000); it.Next() == chunkenc.ValFloat; {
		at, v := it.At()
		got = append(got, spelled(at-from, v))
	}
	want := []string{"0 3", "1 2", "2 2", "3 4", "4 2", "5 ends", "7 5", "8 ends", "10 6"}
	says.EqualSlices(t, got, want)

	// An export has one of those that are exposed, too.
	text, _ := b.export()
	var exported, present []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); strings.HasPrefix(line, "m{") {
			exported = append(exported, words[2])
		}
	}
	for _, sample := range want {
		if second, value, _ := strings.Cut(sample, " "); value != "ends" {
			present = append(present, fmt.Sprintf("%d.000", from/1000+int64(must.Get(strconv.Atoi(second))(t))))
		}
	}
	says.EqualSlices(t, exported, present, "exported at")
}
