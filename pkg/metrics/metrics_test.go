package metrics

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

var ref = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}

// bucket stores hours of metrics.
type bucket struct {
	t     *testing.T
	store *storetest.Store
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	return &bucket{t, storetest.New()}
}

// hour stores the reads of an hour, a chunk each.
func (b *bucket) hour(node rayid.Node, hour time.Time, reads ...func(e *samples.Encoder)) (keys []string) {
	b.t.Helper()
	var e samples.Encoder
	e.Start([][]samples.Label{{{Name: "instance", Value: node.String()[:2]}, {Name: "job", Value: "ray"}}})
	writer := must.Get(zstd.NewWriter(nil))(b.t)
	var offset int64
	for _, read := range reads {
		read(&e)
		lines := e.Lines()
		key := layout.ChunkKey(layout.MetricsKey("log", ref, node, hour), offset, layout.Zstd)
		must.OK(b.t, b.store.Create(b.t.Context(), key, bytes.NewReader(writer.EncodeAll(lines, nil))))
		offset += int64(len(lines))
		keys = append(keys, key)
	}
	return keys
}

func read(at time.Time, values map[string]float64) func(e *samples.Encoder) {
	return func(e *samples.Encoder) {
		e.Begin(0, at)
		for _, name := range []string{"ray_a", "ray_b"} {
			if v, ok := values[name]; ok && !e.Sample([]byte(name), v) {
				e.Add([]byte(name), name, []samples.Label{{Name: "job", Value: "x\"\\\n"}, {Name: "empty", Value: ""}},
					v)
			}
		}
		e.End()
	}
}

func (b *bucket) export() (text string, damaged []string) {
	b.t.Helper()
	hours, err := List(b.t.Context(), b.store, "log", ref)
	must.OK(b.t, err)
	var out bytes.Buffer
	err = WriteOpenMetrics(b.t.Context(), &out, b.store, hours, func(err error) {
		damaged = append(damaged, err.Error())
	}, func(Hour) {})
	must.OK(b.t, err)
	return out.String(), damaged
}

func TestOpenMetrics(t *testing.T) {
	b := newBucket(t)
	one, two := rayid.Node{0xaa}, rayid.Node{0xbb}
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	at := hour.Add(1500 * time.Millisecond)
	b.hour(one, hour, read(at, map[string]float64{"ray_a": 1, "ray_b": math.NaN()}),
		read(at.Add(15*time.Second), map[string]float64{"ray_a": 1, "ray_b": math.Inf(-1)}))
	b.hour(two, hour, read(at, map[string]float64{"ray_a": 0.1}))
	keys := b.hour(one, hour.Add(time.Hour), read(at.Add(time.Hour), map[string]float64{"ray_a": 7}),
		read(at.Add(time.Hour+15*time.Second), map[string]float64{"ray_a": 8}),
		read(at.Add(time.Hour+30*time.Second), map[string]float64{"ray_b": 9}))
	seconds := func(t time.Time) string { return fmt.Sprintf("%.3f", float64(t.UnixMilli())/1000) }
	line := func(name, instance, value string, t time.Time) string {
		if name == "up" {
			return fmt.Sprintf("up{instance=%q,job=\"ray\"} %s %s\n", instance, value, seconds(t))
		}
		return fmt.Sprintf(`%s{exported_job="x\"\\\n",instance=%q,job="ray"} %s %s`+"\n", name, instance, value,
			seconds(t))
	}
	first := line("up", "aa", "1", at) + line("up", "aa", "1", at.Add(15*time.Second)) +
		line("ray_a", "aa", "1", at) + line("ray_a", "aa", "1", at.Add(15*time.Second)) +
		line("ray_b", "aa", "NaN", at) + line("ray_b", "aa", "-Inf", at.Add(15*time.Second)) +
		line("up", "bb", "1", at) + line("ray_a", "bb", "0.1", at)
	later := at.Add(time.Hour)
	up := line("up", "aa", "1", later)
	up2 := line("up", "aa", "1", later.Add(15*time.Second)) + line("up", "aa", "1", later.Add(30*time.Second))
	a := line("ray_a", "aa", "7", later)
	rest := line("ray_a", "aa", "8", later.Add(15*time.Second)) + line("ray_b", "aa", "9", later.Add(30*time.Second))
	text, damaged := b.export()
	says.True(t, text == first+up+up2+a+rest+"# EOF\n" && len(damaged) == 0, "damaged %q, got\n%s", damaged, text)

	must.OK(t, b.store.Delete(t.Context(), keys[1]))
	text, damaged = b.export()
	says.True(t, text == first+up+a+"# EOF\n" && len(damaged) == 2 && strings.Contains(damaged[0], "missing"),
		"without a chunk: damaged %q, got\n%s", damaged, text)
}

// TestOpenMetricsInParts: an hour that does not fit in memory is written in parts, with the same samples; one of which
// no part fits is an error.
func TestOpenMetricsInParts(t *testing.T) {
	b := newBucket(t)
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	const series, reads = 200, 30
	b.hour(rayid.Node{0xaa}, hour, func(e *samples.Encoder) {
		for i := range reads {
			e.Begin(0, hour.Add(time.Duration(i)*time.Second))
			for n := range series {
				name := fmt.Sprint("ray_", n)
				if v := float64(i + n); !e.Sample([]byte(name), v) {
					e.Add([]byte(name), name, nil, v)
				}
			}
			e.End()
		}
	})
	hours := must.Get(List(t.Context(), b.store, "log", ref))(t)
	export := func(memory int64) (lines []string, err error) {
		var out bytes.Buffer
		o := &openMetrics{store: b.store, w: bufio.NewWriter(&out), memory: memory, last: make(map[string]int64),
			targets: newAllowance(memory)}
		err = o.writeHours(t.Context(), hours, func(err error) { t.Error(err) }, func(Hour) {})
		lines = strings.Split(out.String(), "\n")
		slices.Sort(lines)
		return lines, err
	}
	want := must.Get(export(exportBytes))(t)
	got := must.Get(export(series * reads * changeBytes / 3))(t)
	says.True(t, len(want) >= series*reads && slices.Equal(got, want), "%d lines, want %d", len(got), len(want))
	says.ErrorIs(t, says.Err(export(series*reads*changeBytes/(2*maxExportParts))), errExportHour)
}

// TestHeld: what a query found before leaves less for what it finds next, and copies have the same samples.
func TestHeld(t *testing.T) {
	b := newBucket(t)
	random(t, b, rand.New(rand.NewPCG(1, 3)))
	must.OK(t, b.index(0))
	everything := Selection{Maxt: math.MaxInt64,
		Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+")}}
	want, _ := all(t, b.database(0, 64<<20), 0, math.MaxInt64, everything.Matchers...)
	const memory = 512 << 10
	indexed := NewDatabases(b.store, "log", 2*memory, nil).Of(ref, false)
	notKept := b.database(0, memory)
	notKept.keepsNone.Store(true)
	for name, d := range map[string]*Database{"kept": b.database(0, memory), "not kept": notKept, "index": indexed} {
		for _, copies := range []bool{false, true} {
			held, answers := &QueryMemory{Copies: copies}, 0
			for {
				before := held.bytes
				found, damaged, err := d.Select(t.Context(), held, everything)
				if errors.Is(err, ErrTooMuch) {
					break
				}
				must.True(t, err == nil && len(damaged) == 0, "%v %v %v", name, err, damaged)
				if answers++; held.bytes <= before || held.bytes > memory {
					t.Fatalf("%s: %d bytes are held after answer %d, %d before", name, held.bytes, answers, before)
				}
				got := make(map[string][]string)
				for _, s := range found[0] {
					got[s.Labels().String()] = read1(s, 0, math.MaxInt64)
				}
				says.OK(t, same(got, want), "%s, copies %t", name, copies)
			}
			says.True(t, answers != 0, "%s, copies %t: one answer does not fit", name, copies)
			many := slices.Repeat([]Selection{everything}, 100)
			if _, _, err := d.Select(t.Context(), &QueryMemory{Copies: copies}, many...); !errors.Is(err, ErrTooMuch) {
				t.Errorf("%s, copies %t: %d selections of one query: %v", name, copies, len(many), err)
			}
		}
		if inMemory := d.blocks.Cost() > 0; inMemory != (name == "kept") || (d.index != nil) != (name == "index") {
			t.Errorf("%s: %d bytes of blocks are kept", name, d.blocks.Cost())
		}
	}
}
