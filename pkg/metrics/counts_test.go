package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/race"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestCounts reads hours that hold something very often (METRIC_COUNT, 10,000 times), and random mixes of such hours
// (METRIC_MIXES, from METRIC_SEED on). Whatever it is, a query, an index and an export end, with an answer or with an
// error that says it is too much, and take no more memory than they may.
func TestCounts(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine reads them, and ten times as slowly")
	}
	n, mixes, seed := number(t, "METRIC_COUNT", 10_000), number(t, "METRIC_MIXES", 5), number(t, "METRIC_SEED", 1)
	for _, kind := range slices.Sorted(maps.Keys(metricsgen.CountKinds)) {
		t.Run(kind, func(t *testing.T) { readCounts(t, metricsgen.Counts{Of: kind, N: n}) })
	}
	for i := range mixes {
		t.Run(fmt.Sprint("mix ", seed+i), func(t *testing.T) {
			readCounts(t, metricsgen.Counts{Of: "mix", N: n, Rand: rand.New(rand.NewPCG(uint64(seed+i), 1))})
		})
	}
}

// TestCountsAreLinear reads hours of which earlier versions did work by the square of the counts. The context ends what
// takes a hundred times longer than it should, if it ends it at all.
func TestCountsAreLinear(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine reads them, and ten times as slowly")
	}
	for _, kind := range []string{"starts", "restarts", "gone", "failed reads", "last of a million", "sampled names"} {
		t.Run(kind, func(t *testing.T) {
			hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
			b := newBucket(t)
			b.counts(metricsgen.Counts{Of: kind, N: 400_000, Time: hour.UnixMilli()}, hour, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			d := b.database(0, 1<<30)
			if _, _, err := d.Select(ctx, &QueryMemory{}, Selection{Maxt: math.MaxInt64 / 2,
				Matchers: []*labels.Matcher{named(t, "m")}}); err != nil {
				t.Error(err)
			}
		})
	}
}

// counts stores the same hour of some nodes.
func (b *bucket) counts(counts metricsgen.Counts, hour time.Time, nodes int) {
	b.t.Helper()
	var text bytes.Buffer
	w := must.Get(zstd.NewWriter(&text, zstd.WithEncoderLevel(zstd.SpeedFastest)))(b.t)
	must.OK(b.t, errors.Join(counts.Write(w), w.Close()))
	for i := range nodes {
		key := layout.ChunkKey(layout.MetricsKey("log", ref, rayid.Node{byte(i), 1}, hour), 0, layout.Zstd)
		must.OK(b.t, b.store.Create(b.t.Context(), key, bytes.NewReader(text.Bytes())))
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text, set := os.LookupEnv(variable)
	if !set {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must.OK(t, err, variable)
	return n
}

func readCounts(t *testing.T, counts metricsgen.Counts) {
	t.Helper()
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	counts.Time = hour.UnixMilli()
	b := newBucket(t)
	b.counts(counts, hour, 3)
	// Work by the square of the counts takes minutes or hours.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	const memory = 32 << 20
	ask := func(d *Database) error {
		for _, name := range []string{"m", "m1|up", ".+"} {
			_, _, err := d.Select(ctx, &QueryMemory{}, Selection{Mint: 0, Maxt: math.MaxInt64 / 2,
				Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, name)}})
			if err != nil && !errors.Is(err, ErrTooMuch) {
				return err
			}
		}
		return nil
	}
	for what, do := range map[string]func() error{
		"query": func() error {
			return ask(NewDatabase(b.store, func(ctx context.Context) ([]Hour, error) {
				return List(ctx, b.store, "log", ref)
			}, 0, memory))
		},
		"index": func() error {
			w := &IndexWriter{Store: b.store, Root: "log", Put: b.store.Put, passBytes: memory / 2}
			err := w.Write(ctx, ref, true)
			if errors.Is(err, ErrTooMuch) || errors.Is(err, errDamagedMetrics) || errors.Is(err, errTooManyReads) ||
				errors.Is(err, errTooManyRows) {
				return nil
			}
			if err != nil {
				return err
			}
			return ask(NewDatabases(b.store, "log", memory, nil).Of(ref, false))
		},
		"export": func() error {
			hours, err := List(ctx, b.store, "log", ref)
			if err != nil {
				return err
			}
			err = WriteOpenMetrics(ctx, &full{left: 64 << 20}, b.store, hours, func(error) {}, func(Hour) {})
			if errors.Is(err, errFull) || errors.Is(err, errExportHour) {
				return nil
			}
			return err
		},
	} {
		peak := storetest.Peak(20, func() {
			if err := do(); err != nil && !errors.Is(err, errTooManyReads) {
				t.Errorf("%s: %v", what, err)
			}
		})
		t.Logf("%s: %d MiB", what, peak>>20)
		limit := uint64(3 * memory)
		if what == "export" {
			limit = exportBytes + exportBytes/4
		}
		says.True(t, peak <= limit, "%s took %d MiB of memory", what, peak>>20)
	}
}

// full is a disk that becomes full.
type full struct{ left int }

var errFull = errors.New("full")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

var _ io.Writer = (*full)(nil)
