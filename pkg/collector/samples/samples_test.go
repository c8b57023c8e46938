package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// history is what a visitor was told, a text a value.
type history struct {
	want   func(string) bool
	names  []string
	values []string
	kinds  map[string]Metric

	targets [][]Label
	present []map[int]float64 // by target: values by series
}

func (h *history) Start(targets [][]Label) {
	h.targets = targets
	h.present = make([]map[int]float64, len(targets))
}

func (h *history) Wants(name string) bool { return h.want == nil || h.want(name) }

func (h *history) Series(target int, name string, labels []Label) int {
	h.names = append(h.names, fmt.Sprintf("%v %s%v", h.targets[target], name, labels))
	return len(h.names) - 1
}

func (h *history) Metric(m Metric) {
	if h.kinds == nil {
		h.kinds = make(map[string]Metric)
	}
	h.kinds[m.Name] = m
}

func (h *history) Read(r *Read) {
	has := h.present[r.Target]
	if has == nil || r.Failed {
		has = make(map[int]float64)
		h.present[r.Target] = has
	}
	for i, n := range r.Series {
		has[n] = r.Values[i]
	}
	for _, n := range r.Ended {
		delete(has, n)
	}
	for _, n := range slices.Sorted(maps.Keys(has)) {
		h.told(r.Time, n, has[n])
	}
}

func (h *history) told(t int64, n int, value float64) {
	h.values = append(h.values, fmt.Sprintf("%d %s %x", t, h.names[n], math.Float64bits(value)))
}

func decode(t testing.TB, h *history, lines []byte) {
	t.Helper()
	d := NewDecoder(h)
	for line := range bytes.Lines(lines) {
		says.True(t, json.Valid(line), "not JSON: %.200s", line)
		must.OK(t, d.Line(t.Context(), line), "%.200s", line)
	}
}

var odd = []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e15, 1e21, -1e-320, math.MaxFloat64, math.Inf(1),
	math.Inf(-1), math.NaN(), 1 << 53, 123456789012345678}

// TestReadsComeBackEqual encodes random reads of three targets, with series that come, go and return, failed reads and
// restarts, and decodes them.
func TestReadsComeBackEqual(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	spell := func(i int) (name string, labels []Label) {
		labels = []Label{{"le", fmt.Sprint(i)}, {"odd", "a\"b\\c\nd\u2028<" + strings.Repeat("x", i%5)}}
		return fmt.Sprintf("ray_%d", i%7), labels[:1+i%2]
	}
	var e Encoder
	var lines []byte
	want := &history{}
	targets := [][]Label{{{"instance", "a:1"}}, {{"instance", "b:2"}, {"job", "ray"}}, nil}
	e.Start(targets)
	at := time.UnixMilli(1764000000000)
	for range 300 {
		at = at.Add(time.Duration(1+r.IntN(20_000)) * time.Millisecond)
		n := r.IntN(len(targets))
		name := func(series string) string { return fmt.Sprintf("%v %s", targets[n], series) }
		tell := func(series string, v float64) {
			want.values = append(want.values, fmt.Sprintf("%d %s %x", at.UnixMilli(), name(series),
				math.Float64bits(v)))
		}
		switch r.IntN(20) {
		case 0:
			e.Start(targets)
			continue
		case 1:
			e.Begin(n, at)
			e.Fail()
			tell("up[]", 0)
		default:
			e.Begin(n, at)
			tell("up[]", 1)
			for _, i := range r.Perm(40)[:r.IntN(40)] {
				series, labels := spell(i)
				v := odd[r.IntN(len(odd))]
				if spelling := fmt.Append(nil, series, labels); !e.Sample(spelling, v) {
					e.Add(spelling, series, labels, v)
				}
				e.Sample(fmt.Append(nil, series, labels), v+1) // told twice: the first counts
				tell(fmt.Sprintf("%s%v", series, labels), v)
			}
			e.End()
		}
		lines = append(lines, e.Lines()...)
	}
	got := &history{}
	decode(t, got, lines)
	slices.Sort(got.values)
	slices.Sort(want.values)
	says.EqualSlices(t, got.values, want.values, "%d values came back, of %d", len(got.values), len(want.values))
	all, present := e.Series()
	says.True(t, present <= all && all != 0, "%d series, %d present", all, present)

	some := &history{want: func(name string) bool { return name == "ray_3" }}
	decode(t, some, lines)
	var wantSome []string
	for _, v := range want.values {
		if strings.Contains(v, " ray_3[") {
			wantSome = append(wantSome, v)
		}
	}
	slices.Sort(some.values)
	says.True(t, len(wantSome) != 0 && slices.Equal(some.values, wantSome), "of one name: %d values, want %d",
		len(some.values), len(wantSome))
}

func TestMetricsAreToldOnce(t *testing.T) {
	var e Encoder
	e.Start([][]Label{nil})
	for i := range 2 {
		e.Begin(0, time.UnixMilli(int64(i+1)))
		e.Metric(Metric{"ray_tasks", "gauge", "how many\ntasks"})
		e.Metric(Metric{"ray_tasks", "counter", ""})
		e.End()
	}
	lines := bytes.Clone(e.Lines())
	h := &history{}
	decode(t, h, lines)
	want := (Metric{"ray_tasks", "gauge", "how many\ntasks"})
	says.True(t, h.kinds["ray_tasks"] == want && bytes.Count(lines, []byte("ray_tasks")) == 1, "got %+v from %s",
		h.kinds, lines)
}

// TestLinesTwiceOrLost: lines that are stored twice change nothing; after lines that are missing nothing is told until
// the next start.
func TestLinesTwiceOrLost(t *testing.T) {
	var e Encoder
	var lines []string
	for i := range 20 {
		if i == 0 || i == 15 {
			e.Start([][]Label{nil})
		}
		e.Begin(0, time.UnixMilli(int64(i+1)))
		for j := range 1 + i/3 {
			if spelling := fmt.Append(nil, j); !e.Sample(spelling, float64(i)) {
				e.Add(spelling, "ray_x", []Label{{"j", fmt.Sprint(j)}}, float64(i))
			}
		}
		e.End()
		for line := range strings.Lines(string(e.Lines())) {
			lines = append(lines, line)
		}
	}
	tell := func(lines []string, lost int) (values []string, untrusted int) {
		h := &history{}
		d := NewDecoder(h)
		for i, line := range lines {
			if i == lost {
				d.Lost()
				continue
			}
			if err := d.Line(t.Context(), []byte(line)); errors.Is(err, errUntrusted) {
				untrusted++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return h.values, untrusted
	}
	want, _ := tell(lines, -1)
	for i := 1; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], `{"start"`) {
			continue
		}
		twice := slices.Concat(lines[:i+1], lines[max(1, i-2):i+1], lines[i+1:])
		if strings.Contains(strings.Join(lines[max(1, i-2):i+1], ""), `"start"`) {
			continue
		}
		if got, untrusted := tell(twice, -1); untrusted > 0 || !slices.Equal(got, want) {
			t.Errorf("lines up to %d twice: %d values of %d", i, len(got), len(want))
		}
		got, untrusted := tell(lines, i)
		says.True(t, untrusted != 0 || i >= len(lines)-1 || strings.HasPrefix(lines[i+1], `{"start"`),
			"line %d is missing and nobody says so", i)
		for _, v := range got {
			says.True(t, slices.Contains(want, v), "line %d is missing: made up %s", i, v)
		}
	}
}

func TestDamagedLines(t *testing.T) {
	for _, line := range []string{
		``, `{`, `{}`, `null`, `{"x":1}`, `{"start":2,"targets":[]}`, `{"start":1}`, `{"start":1,"targets":[{"a":"b"}`,
		`{"start":1,"targets":[]} x`,
		`{"from":0,"target":0,"series":[["a"]]}`, `{"from":2,"target":0,"series":[["a"]]}`,
		`{"from":0,"target":7,"series":[["a"]]}`,
		`{"from":0,"target":0,"series":[["a","b"]]}`, `{"from":0,"target":0,"series":[["a]]}`,
		`{"from":99999999999999999999,"target":0,"series":[]}`,
		`{"t":1,"target":0,"i":[5],"v":[1]}`, `{"t":1,"target":0,"i":[0],"v":[]}`,
		`{"t":1,"target":0,"i":[0],"v":[1,2]}`, `{"t":1,"target":0,"i":[0],"v":["x"]}`,
		`{"t":1,"target":0,"i":[0],"v":[{}]}`, `{"t":1,"target":0,"i":[-1],"v":[1]}`, `{"metrics":[["a","b"}`,
	} {
		h := &history{}
		d := NewDecoder(h)
		must.OK(t, d.Line(t.Context(), []byte(`{"start":1,"targets":[{"instance":"a"}]}`)))
		if !strings.Contains(line, `"from":0`) {
			must.OK(t, d.Line(t.Context(), []byte(`{"from":0,"target":0,"series":[["ray_x"]]}`)))
		}
		if err := d.Line(t.Context(), []byte(line)); err == nil && line != `{"from":0,"target":0,"series":[["a"]]}` {
			t.Errorf("%s: no error", line)
		} else if err != nil && !errors.Is(d.Line(t.Context(), []byte(`{"t":9,"target":0,"i":[],"v":[]}`)),
			errUntrusted) {
			t.Errorf("%s: what follows is trusted", line)
		}
		says.True(t, len(h.values) == 0, "%s: told %q", line, h.values)
	}
}

func FuzzDecoder(f *testing.F) {
	data := must.Get(os.ReadFile("testdata/stream.jsonl"))(f)
	f.Add(data)
	f.Add([]byte(`{"start":1,"targets":[{}]}` + "\n" + `{"from":0,"target":0,"series":[["a","b","\\u0000"]]}` + "\n" +
		`{"t":1,"target":0,"i":[0],"v":["NaN"],"gone":[0]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := &history{}
		d := NewDecoder(h)
		for line := range bytes.Lines(data) {
			told := len(h.values)
			err := d.Line(t.Context(), line)
			says.True(t, err == nil || len(h.values) == told, "told something of a line that is refused: %v", err)
		}
	})
}
