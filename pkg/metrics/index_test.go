package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/internal/testkit/tabledocs"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// index writes the index of the session's metrics, with so much memory for a pass.
func (b *bucket) index(pass int64) error {
	w := &IndexWriter{Store: b.store, Root: "log", Put: b.store.Put, passBytes: pass}
	return w.Write(b.t.Context(), ref, false)
}

// kept is the session's database as the server keeps it.
func (b *bucket) kept() *Database { return NewDatabases(b.store, "log", 128<<20, nil).Of(ref, false) }

// all gives the samples of all series that match, by labels, and what was damaged.
func all(t *testing.T, d *Database, mint, maxt int64, matchers ...*labels.Matcher) (map[string][]string, []error) {
	t.Helper()
	found, damaged, err := selectFrom(t, d, mint, maxt, matchers...)
	must.OK(t, err)
	got := make(map[string][]string)
	for _, s := range found {
		if values := read1(s, mint, maxt); len(values) > 0 {
			got[s.Labels().String()] = values
		}
	}
	return got, damaged
}

func same(a, b map[string][]string) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d and %d series", len(a), len(b))
	}
	for l, samples := range a {
		if !slices.Equal(samples, b[l]) {
			return fmt.Errorf("%s: %q and %q", l, samples, b[l])
		}
	}
	return nil
}

// TestColumns: an index of this version has these columns, and docs/analysis.md has them.
func TestColumns(t *testing.T) {
	const version, want = 2, "session cluster namespace series name labels samples start_time end_time | " +
		"session series time value"
	var got []string
	for name, row := range map[string]any{seriesTable: seriesRow{}, samplesTable: sampleRow{}} {
		table := parquet.NewSchema(name, parquet.SchemaOf(row))
		tabledocs.HasColumns(t, "../..", table)
		var columns []string
		for _, field := range table.Fields() {
			columns = append(columns, field.Name())
		}
		got = append(got, strings.Join(columns, " "))
	}
	slices.Sort(got) // series first
	if columns := strings.Join(got, " | "); columns != want || indexVersion != version {
		t.Errorf("indexes of version %d have the columns\n%s, and of version %d\n%s\nRaise indexVersion in "+
			"indextables.go, or stored indexes stay without a new column; then write both here", indexVersion, columns,
			version, want)
	}
}

// TestIndexAnswers: an index gives the samples that the chunks give, in any range of time: of series that come and go,
// NaN, restarts and failed reads; however little memory writing it may take.
func TestIndexAnswers(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := newBucket(t)
		random(t, b, r)
		must.OK(t, b.index([]int64{0, 20_000}[seed%2]))
		indexed, chunks := b.kept(), b.database(0, 64<<20)
		begin := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
		for i := range 30 {
			mint, maxt := int64(0), int64(math.MaxInt64)
			if i > 0 {
				mint = begin.Add(time.Duration(r.IntN(300)) * time.Minute).UnixMilli()
				maxt = mint + r.Int64N(3*3600_000)
			}
			name := labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel,
				[]string{"ray_.*", "up|ray_1", "ray_2"}[r.IntN(3)])
			node := labels.MustNewMatcher(labels.MatchRegexp, "instance", []string{".*", "aa"}[r.IntN(2)])
			got, damaged := all(t, indexed, mint, maxt, name, node)
			want, _ := all(t, chunks, mint, maxt, name, node)
			if err := same(got, want); err != nil || len(damaged) > 0 {
				t.Fatalf("seed %d, %d to %d, %s: %v %v", seed, mint, maxt, name, err, damaged)
			}
		}
		says.True(t, indexed.index != nil && indexed.blocks.Cost() == 0, "chunks were read")
		if err := same(map[string][]string{"": {fmt.Sprint(len(must.Get(indexed.Metrics(t.Context()))(t)))}},
			map[string][]string{"": {fmt.Sprint(len(must.Get(chunks.Metrics(t.Context()))(t)))}}); err != nil {
			t.Error("what is said of metrics:", err)
		}
	}
}

// TestFindEnds: a large expression takes long for each series, so looking for series ends with the context, also when
// all have been read.
func TestFindEnds(t *testing.T) {
	b := newBucket(t)
	random(t, b, rand.New(rand.NewPCG(1, 2)))
	must.OK(t, b.index(0))
	indexed, chunks := b.kept(), b.database(0, 64<<20)
	for _, d := range []*Database{indexed, chunks} {
		found, _ := all(t, d, 0, math.MaxInt64)
		must.True(t, len(found) != 0, "there are no series")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := indexed.index.findSeries(ctx, Selection{}); !errors.Is(err, context.Canceled) {
		t.Errorf("of an index: %d series, %v", len(found), err)
	}
	if found, err := chunks.names.findNumbers(ctx, Selection{}); !errors.Is(err, context.Canceled) {
		t.Errorf("of chunks: %d series, %v", len(found), err)
	}
}

// TestIndexOfRecorded: the same of what a real node exported, and of hardware figures.
func TestIndexOfRecorded(t *testing.T) {
	b := newBucket(t)
	g := metricsgen.Session{
		Ref: ref, Begin: time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC), Interval: time.Minute, ChunkReads: 30,
		Nodes: 2, Series: 1041, Hours: 2,
	}
	must.Get(g.Store(t.Context(), b.store, "log"))(t)
	must.OK(t, b.index(8<<20))
	indexed := b.kept()
	got, _ := all(t, indexed, 0, math.MaxInt64)
	want, _ := all(t, b.database(0, 64<<20), 0, math.MaxInt64)
	err := same(got, want)
	says.True(t, err == nil && len(got) >= 2000 && indexed.index != nil, "%d series: %v", len(got), err)
	b = newBucket(t)
	node, hour := rayid.Node{0xaa}, time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	b.put(layout.SeriesKey("log", ref, hour), fmt.Sprintf(`{"t":%d,"node":"%s","cpu":5,"mem":[1,2],"workers":0}`+"\n",
		hour.UnixMilli(), node))
	must.OK(t, b.index(0))
	indexed = b.kept()
	got, _ = all(t, indexed, 0, math.MaxInt64, named(t, "ray_node_mem_used"))
	says.True(t, len(got) == 1 && indexed.index != nil, "hardware figures: %v", got)
	m := must.Get(indexed.Metrics(t.Context()))(t)["ray_node_mem_used"]
	says.True(t, m.Type == "gauge" && m.Help != "", "what is said of a metric: %+v", m)
}

// TestLongSeries: a series has more samples than a part of one can hold, and many row groups.
func TestLongSeries(t *testing.T) {
	g := &gatherer{mint: 0, maxt: math.MaxInt64, free: newAllowance(64 << 20)}
	var want []string
	const n = 3*maxReads + 5
	for from := 0; from < n; from += 10_000 {
		var times []int64
		var values []float64
		for i := from; i < min(n, from+10_000); i++ {
			v := float64(i / 100_000)
			if i == 70_000 {
				v = staleMarker
			}
			times, values = append(times, int64(i)), append(values, v)
			want = append(want, spelled(int64(i), v))
		}
		must.OK(t, g.addRows(times, values))
	}
	s := g.finishSeries(labels.EmptyLabels())
	got := read1(s, 0, math.MaxInt64)
	says.True(t, slices.Equal(got, want), "%d samples, want %d", len(got), len(want))
	says.EqualSlices(t, read1(s, 2*maxReads-1, 2*maxReads+1), want[2*maxReads-1:2*maxReads+2], "where a part ends")
}

// TestNoReadOutlivesItsQuery: when the memory is not enough for all row groups that are read at the same time, none is
// read; a read of the others would go on after the query has ended.
func TestNoReadOutlivesItsQuery(t *testing.T) {
	b := newBucket(t)
	random(t, b, rand.New(rand.NewPCG(1, 1)))
	must.OK(t, b.index(0))
	d := b.kept()
	all(t, d, 0, math.MaxInt64, named(t, "ray_a"))
	x, reads := d.index, 0
	x.store = &storetest.Hooked{Store: b.store, Before: func(context.Context, storetest.Op, string) error {
		reads++
		return nil
	}}
	synctest.Test(t, func(t *testing.T) {
		_, _, err := x.readGroups(t.Context(), []int{0, 0}, newAllowance(2*x.groupBytes(0)-1))
		synctest.Wait()
		says.True(t, errors.Is(err, ErrTooMuch) && reads == 0, "%v after %d reads", err, reads)
	})
	// Not in the bubble: the decoders that decompress a group are used again by other tests.
	_, _, err := x.readGroups(t.Context(), []int{0}, newAllowance(x.groupBytes(0)))
	says.True(t, err == nil && reads != 0, "with enough memory: %d reads, %v", reads, err)
}

// TestStaleIndex: an index of other chunks does not count, and is written again; one that is right is left as it is.
func TestStaleIndex(t *testing.T) {
	b := newBucket(t)
	random(t, b, rand.New(rand.NewPCG(1, 1)))
	must.OK(t, b.index(0))
	key := layout.IndexKey("log", ref, seriesTable)
	etag := func() string {
		t.Helper()
		o := must.Get(b.store.Stat(t.Context(), key))(t)
		return fmt.Sprint(o)
	}
	first := etag()
	err := b.index(0)
	says.True(t, err == nil && etag() == first, "written again: %v", err)
	b.hour(rayid.Node{0xcc}, time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
		read(time.Date(2026, 11, 21, 0, 0, 1, 0, time.UTC), map[string]float64{"ray_a": 1}))
	d := b.kept()
	got, damaged := all(t, d, 0, math.MaxInt64, named(t, "ray_a"))
	says.True(t, len(got) == 1 && len(damaged) == 0 && d.index == nil, "stale: %v %v", got, damaged)
	err = b.index(0)
	says.True(t, err == nil && etag() != first, "not written anew: %v", err)
	if d := b.kept(); len(first) > 0 {
		if got, _ := all(t, d, 0, math.MaxInt64, named(t, "ray_a")); len(got) != 1 || d.index == nil {
			t.Errorf("anew: %v", got)
		}
	}

	// Of damaged metrics none is made.
	b.put(layout.MetricsKey("log", ref, rayid.Node{0xdd}, time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)), "damaged\n")
	says.ErrorIs(t, b.index(0), errDamagedMetrics, "of damaged metrics")
	// Nor of a session without metrics, nor of a series that no pass has room for.
	says.OK(t, newBucket(t).index(0), "without metrics")
	b = newBucket(t)
	random(t, b, rand.New(rand.NewPCG(1, 1)))
	says.ErrorIs(t, b.index(100), ErrTooMuch, "without room")
}

// TestIndexIsLookedForAgain: a database that found no index, or whose index could not be read once, uses the index that
// is there a minute later.
func TestIndexIsLookedForAgain(t *testing.T) {
	b := newBucket(t)
	random(t, b, rand.New(rand.NewPCG(1, 1)))
	b.store.Age(2 * lifetime.LateWrites)
	d := b.kept()
	want, _ := all(t, d, 0, math.MaxInt64)
	must.OK(t, b.index(0))
	ask := func(when string, indexed bool, warnings int) {
		t.Helper()
		got, damaged := all(t, d, 0, math.MaxInt64)
		err := same(got, want)
		says.True(t, err == nil && len(damaged) == warnings, "%s: %v, warnings %v", when, err, damaged)
		says.True(t, (d.index != nil) == indexed && d.blocks.Cost() == 0 == indexed,
			"%s: by the index: %t; %d bytes of chunks are kept", when, d.index != nil, d.blocks.Cost())
	}
	minuteLater := func() { d.lookedForIndex = d.lookedForIndex.Add(-retryIndex) }
	ask("at once", false, 0)
	minuteLater()
	ask("a minute later", true, 0)
	failing := errors.New("the store is down")
	d.index.store = &storetest.Hooked{Store: b.store, Before: func(context.Context, storetest.Op, string) error {
		return failing
	}}
	ask("when it cannot be read", false, 1)
	minuteLater()
	ask("a minute after that", true, 0)
}

// TestIndexWhileChunksAreJoined: chunks that are joined while they are read are listed again.
func TestIndexWhileChunksAreJoined(t *testing.T) {
	b := newBucket(t)
	hour := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	parts := b.hour(rayid.Node{0xcc}, hour, read(hour.Add(time.Second), map[string]float64{"ray_a": 1}),
		read(hour.Add(time.Minute), map[string]float64{"ray_a": 2}))
	joined := slices.Concat(b.store.Objects[parts[0]], b.store.Objects[parts[1]])
	var once sync.Once
	store := &storetest.Hooked{Store: b.store, Before: storetest.On(storetest.Get,
		func(ctx context.Context, key string) (err error) {
			once.Do(func() {
				err = errors.Join(b.store.Put(ctx, parts[0], bytes.NewReader(joined)), b.store.Delete(ctx, parts[1]))
			})
			return err
		})}
	w := &IndexWriter{Store: store, Root: "log", Put: b.store.Put}
	must.OK(t, w.Write(t.Context(), ref, false))
	d := b.kept()
	if got, damaged := all(t, d, 0, math.MaxInt64, named(t, "ray_a")); len(got) != 1 || len(damaged) > 0 || d.index == nil {
		t.Errorf("%v %v, by an index: %t", got, damaged, d.index != nil)
	}
}

// TestRunningIsNotIndexed: the metrics of a session that runs are read from its chunks.
func TestRunningIsNotIndexed(t *testing.T) {
	says.True(t, NewDatabases(newBucket(t).store, "log", 1<<20, nil).Of(ref, true).openIndex == nil,
		"an index is opened")
}

// TestIndexMutations changes bytes of an index. Whatever they are, answers are those of the chunks or an error's,
// nothing ends the process, and no more memory is taken than is allowed. Values may be changed where Parquet has no
// checksum; times stay in order.
func TestIndexMutations(t *testing.T) {
	b := newBucket(t)
	for _, node := range []rayid.Node{{0xaa}, {0xbb}} {
		b.hour(node, time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC),
			read(time.Date(2026, 11, 20, 20, 0, 1, 0, time.UTC), map[string]float64{"ray_a": 1, "ray_b": 2}),
			read(time.Date(2026, 11, 20, 20, 1, 0, 0, time.UTC), map[string]float64{"ray_a": 3}))
	}
	must.OK(t, b.index(0))
	chunks := b.database(0, 64<<20)
	want, _ := all(t, chunks, 0, math.MaxInt64)
	refused := 0
	for i := range 400 {
		r := rand.New(rand.NewPCG(7, uint64(i)))
		d := NewDatabases(changed(b.store, []string{seriesTable, samplesTable}[i%2], r), "log", 64<<20, nil).Of(ref,
			false)
		got, damaged := all(t, d, 0, math.MaxInt64)
		if len(damaged) == 0 {
			continue // what was changed is in no column that is read, or is a value
		}
		refused++
		must.OK(t, same(got, want), "mutation %d: %v", i, damaged)
		must.True(t, d.index == nil && d.indexBytes.Load() == 0, "mutation %d: the index is kept", i)
	}
	says.True(t, refused >= 80, "%d of 400 were refused", refused)
}

// changed is a copy of a store in which 1 to 8 bytes of a table of the index are others.
func changed(store *storetest.Store, table string, r *rand.Rand) *storetest.Store {
	objects := maps.Clone(store.Objects)
	key := layout.IndexKey("log", ref, table)
	text := bytes.Clone(objects[key])
	for range 1 + r.IntN(8) {
		at := r.IntN(len(text))
		if r.IntN(2) == 0 {
			at = len(text) - 1 - r.IntN(min(len(text), 2000)) // the footer
		}
		text[at] ^= byte(1 + r.IntN(255))
	}
	objects[key] = text
	return &storetest.Store{Objects: objects}
}
