package scrape

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/response"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const session = "session_2026-11-20_23-19-45_581717_22125"

var node = rayid.Node{1, 2, 3}

// rig is a scraper over endpoints of this process.
type rig struct {
	*Scraper
	t      *testing.T
	dir    string
	log    *test.Hook
	hours  map[time.Time][]byte // what was appended
	refuse error                // what Append answers
	clock  time.Time
}

func newRig(t *testing.T, o Options, endpoints ...http.HandlerFunc) *rig {
	t.Helper()
	log, hook := test.NewNullLogger()
	r := &rig{t: t, dir: t.TempDir(), log: hook, hours: make(map[time.Time][]byte),
		clock: time.Date(2026, 11, 20, 23, 30, 0, 0, time.UTC)}
	folder := filepath.Join(r.dir, session)
	must.OK(t, os.MkdirAll(folder, 0o755))
	var targets []string
	for i, endpoint := range endpoints {
		server := httptest.NewServer(endpoint)
		t.Cleanup(server.Close)
		address := server.Listener.Addr().(*net.TCPAddr)
		targets = append(targets, fmt.Sprintf("%q", address))
		if i == 0 {
			r.write(portFile+node.String(), strconv.Itoa(address.Port))
		}
	}
	r.write(discoveryFile, `[{"labels": {"job": "ray"}, "targets": [`+strings.Join(targets, ",")+
		`, "10.9.9.9:1", "x"]}]`)
	o.Dir, o.Head, o.Host, o.Log, o.Registerer = r.dir, true, "127.0.0.1", log, prometheus.NewPedanticRegistry()
	o.Labels = []samples.Label{{Name: "ray_io_cluster", Value: "lab"}}
	o.Interval = cmp.Or(o.Interval, time.Hour)
	o.MaxSeries = cmp.Or(o.MaxSeries, 50_000)
	o.Running = func() (string, error) { return session, nil }
	o.Node = func(context.Context, string) (rayid.Node, error) { return node, nil }
	o.Append = func(ctx context.Context, _ string, _ rayid.Node, hour time.Time, lines []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.refuse == nil {
			r.hours[hour] = append(r.hours[hour], lines...)
		}
		return r.refuse
	}
	r.Scraper = New(o)
	r.now = func() time.Time { return r.clock }
	r.limit = o.Interval // a loaded machine needs long for many series
	return r
}

func (r *rig) write(name, content string) {
	r.t.Helper()
	must.OK(r.t, os.WriteFile(filepath.Join(r.dir, session, name), []byte(content), 0o644))
}

// scrape reads once, 15 s after the time before.
func (r *rig) scrape() {
	r.clock = r.clock.Add(15 * time.Second)
	r.ScrapeOnce(r.t.Context())
}

// values are what the streams hold: time and series → value.
type values struct {
	series []string
	at     map[string]float64
	kinds  map[string]samples.Metric

	targets [][]samples.Label
	present []map[int]float64 // by target: values by series
}

func (v *values) Start(targets [][]samples.Label) {
	v.targets = targets
	v.present = make([]map[int]float64, len(targets))
}

func (v *values) Wants(string) bool { return true }

func (v *values) Series(target int, name string, labels []samples.Label) int {
	m := model.Metric{"__name__": model.LabelValue(name)}
	for _, l := range slices.Concat(v.targets[target], labels) {
		if le, err := strconv.ParseFloat(l.Value, 64); l.Name == "le" && err == nil {
			l.Value = fmt.Sprint(le) // as Prometheus's parser, with which this is compared, spells it
		}
		m[model.LabelName(l.Name)] = model.LabelValue(l.Value)
	}
	v.series = append(v.series, m.String())
	return len(v.series) - 1
}

func (v *values) Metric(m samples.Metric) { v.kinds[m.Name] = m }

func (v *values) Read(r *samples.Read) {
	has := v.present[r.Target]
	if has == nil || r.Failed {
		has = make(map[int]float64)
		v.present[r.Target] = has
	}
	for i, n := range r.Series {
		has[n] = r.Values[i]
	}
	for _, n := range r.Ended {
		delete(has, n)
	}
	for n, value := range has {
		v.at[fmt.Sprint(r.Time, " ", v.series[n])] = value
	}
}

func (r *rig) values() *values {
	r.t.Helper()
	v := &values{at: make(map[string]float64), kinds: make(map[string]samples.Metric)}
	for hour, lines := range r.hours {
		d := samples.NewDecoder(v)
		for line := range bytes.Lines(lines) {
			must.OK(r.t, d.Line(r.t.Context(), line), "%s", hour)
		}
	}
	return v
}

// TestRealExpositions reads what a real Ray 2.60 exported three times, and finds every sample that Prometheus's own
// parser finds.
func TestRealExpositions(t *testing.T) {
	var text []byte
	r := newRig(t, Options{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
	want := make(map[string]float64)
	for i := range 3 {
		text = recorded(t, fmt.Sprintf("ray-2.60-%d.txt.zst", i+1))
		r.scrape()
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families := must.Get(parser.TextToMetricFamilies(bytes.NewReader(text)))(t)
		for _, family := range families {
			vector, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{
				Timestamp: model.TimeFromUnixNano(r.clock.UnixNano())}, family)
			must.OK(t, err)
			for _, s := range vector {
				s.Metric["job"], s.Metric["ray_io_cluster"] = "ray", "lab"
				s.Metric["instance"] = model.LabelValue(net.JoinHostPort("127.0.0.1", strconv.Itoa(r.stream.ports[0])))
				want[fmt.Sprint(r.clock.UnixMilli(), " ", s.Metric.String())] = float64(s.Value)
			}
		}
		want[fmt.Sprintf(`%d up{instance="127.0.0.1:%d", job="ray", ray_io_cluster="lab"}`, r.clock.UnixMilli(),
			r.stream.ports[0])] = 1
	}
	got := r.values()
	says.True(t, len(want) >= 3000 && len(got.at) == len(want), "got %d values, want %d", len(got.at), len(want))
	missing := 0
	for name, v := range want {
		if g, ok := got.at[name]; !ok || (g != v && !(math.IsNaN(g) && math.IsNaN(v))) {
			if missing++; missing <= 5 {
				t.Errorf("%s: got %v, want %v", name, g, v)
			}
		}
	}
	m := got.kinds["ray_tasks"]
	says.True(t, m.Type == "gauge" && m.Help != "", "ray_tasks is %+v", m)
	recorder := httptest.NewRecorder()
	r.Latest().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics/ray", nil))
	says.True(t, bytes.Equal(recorder.Body.Bytes(), text), "the last read is offered as %d bytes, of %d",
		recorder.Body.Len(), len(text))
}

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	data := must.Get(metricsgen.Recorded(name))(t)
	return data
}

// TestOddExpositions: what is no line costs itself only.
func TestOddExpositions(t *testing.T) {
	const text = `# HELP a what a is
# TYPE a gauge
# HELP a again
# TYPE a counter
a{x="1"} 1
a{x="1"} 2
a{x="}\"{\\ \n"} 3 1764000000000
a{ y = "2" , } +Inf
 a 4
a{x="1" 5
a{x=1} 6
a 7x
b NaN # {trace="x"} 1
c_bucket{le="+Inf"} 8 # {trace_id="oHg5SJYRHA0"} 0.67
1a 9
{x="1"} 10
target_info{x="1"} 1
target_info{x="1"} 1
# EOF
last 1e400`
	r := newRig(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "long{x=\""+strings.Repeat("x", maxLine)+"\"} 1\n"+text)
	})
	r.scrape()
	got := r.values()
	suffix := fmt.Sprintf(`instance="127.0.0.1:%d", job="ray", ray_io_cluster="lab"`, r.stream.ports[0])
	for name, want := range map[string]float64{
		`up{` + suffix + `}`: 1, `a{` + suffix + `, x="1"}`: 1, `a{` + suffix + `, x="}\"{\\ \n"}`: 3,
		`a{` + suffix + `, y="2"}`: math.Inf(1),
		`c_bucket{` + suffix[:len(suffix)-21] + `le="+Inf", ray_io_cluster="lab"}`: 8,
		`target_info{` + suffix + `, x="1"}`:                                       1,
		`last{` + suffix + `}`:                                                     math.Inf(1),
	} {
		name = fmt.Sprintf("%d %s", r.clock.UnixMilli(), strings.ReplaceAll(name, ",le", ", le"))
		v, ok := got.at[name]
		says.True(t, ok && v == want, "%s: got %v %t, want %v", name, v, ok, want)
	}
	says.Equal(t, len(got.at), 8, "%d values: %v", len(got.at), got.at)
	m := got.kinds["a"]
	says.True(t, m.Type == "gauge" && m.Help == "what a is", "a is %+v", m)
}

// TestEndpointsThatFail: one that hangs, one that is gone, one that sends no end and one that ends before its first
// sample cost their own figures, and are told.
func TestEndpointsThatFail(t *testing.T) {
	t.Parallel() // it mostly waits
	var broken atomic.Bool
	release := make(chan struct{})
	// Half of it is the time for a read, enough for the one without end on a loaded machine.
	r := newRig(t, Options{Interval: 20 * time.Second, MaxSeries: 11},
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a 1\n") },
		func(w http.ResponseWriter, req *http.Request) {
			if broken.Load() {
				<-release
			}
			_, _ = io.WriteString(w, "b 1\n")
		},
		func(w http.ResponseWriter, _ *http.Request) {
			if broken.Load() {
				http.Error(w, "no", http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, "c 1\n")
		},
		func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; broken.Load(); i++ {
				if _, err := fmt.Fprintf(w, "d{i=\"%d\"} 1\n", i); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, "d{i=\"0\"} 1\n")
		},
		func(w http.ResponseWriter, _ *http.Request) {
			if broken.Load() {
				_, _ = io.WriteString(w, "# TYPE e gauge\n# TYPE f gauge\n")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, "e 1\n")
		})
	t.Cleanup(func() { close(release) })
	r.client.limit = 1 << 16
	r.scrape()
	broken.Store(true)
	r.scrape()
	broken.Store(false)
	r.scrape()
	got := r.values()
	count := func(name string, at time.Time) (n int) {
		for key := range got.at {
			if strings.HasPrefix(key, fmt.Sprint(at.UnixMilli(), " ", name, "{")) {
				n++
			}
		}
		return n
	}
	for _, name := range []string{"e", "f"} {
		m := got.kinds[name]
		says.True(t, m.Type == "gauge", "%s is described as %v, by the read that failed", name, m)
	}
	for _, c := range []struct {
		name string
		want [3]int
	}{{"up", [3]int{5, 5, 5}}, {"a", [3]int{1, 1, 1}}, {"b", [3]int{1, 0, 1}}, {"c", [3]int{1, 0, 1}},
		{"d", [3]int{1, 7, 1}}, {"e", [3]int{1, 0, 1}}} {
		for i, want := range c.want {
			says.Equal(t, count(c.name, r.clock.Add(time.Duration(i-2)*15*time.Second)), want, "%s at read %d", c.name,
				i)
		}
	}
	up := 0.0
	for key, v := range got.at {
		if strings.HasPrefix(key, fmt.Sprint(r.clock.Add(-15*time.Second).UnixMilli(), " up{")) {
			up += v
		}
	}
	if up != 2 { // a and d
		t.Errorf("%v of the endpoints are up while the others fail", up)
	}
	var said []string
	for _, e := range r.log.AllEntries() {
		said = append(said, e.Message)
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{"context deadline exceeded", "status 500", "--metrics-max-series=11", "too long"} {
		says.True(t, strings.Contains(all, want), "nobody is told of %q:\n%s", want, all)
	}
}

// TestHugeEndpoint: of an exporter with half a million series, as Ray Data once had, as many are kept as may be, the
// other endpoint loses nothing, and somebody is told.
func TestHugeEndpoint(t *testing.T) {
	const most = 50_000
	r := newRig(t, Options{MaxSeries: most}, func(w http.ResponseWriter, _ *http.Request) {
		out := bufio.NewWriter(w)
		for i := range 488_000 {
			_, _ = fmt.Fprintf(out, "data_blocks{dataset=\"dataset_%d\",operator=\"Map\"} %d\n", i, i)
		}
		_ = out.Flush()
	}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a 1\n") })
	r.scrape()
	kept, other := 0, 0
	for key := range r.values().at {
		switch {
		case strings.Contains(key, " data_blocks{"):
			kept++
		case strings.Contains(key, " a{"):
			other++
		}
	}
	says.True(t, kept == most-most/8 && other == 1, "%d series of the large exporter and %d of the other", kept, other)
	said := false
	for _, e := range r.log.AllEntries() {
		said = said || strings.Contains(e.Message, "--metrics-max-series=50000")
	}
	says.True(t, said, "nobody is told")
}

// TestLongNames: names of 60 KB, others in each read, do not add up in memory.
func TestLongNames(t *testing.T) {
	reads := 0
	r := newRig(t, Options{MaxSeries: 2000}, func(w http.ResponseWriter, _ *http.Request) {
		reads++
		for i := range 20 {
			_, _ = fmt.Fprintf(w, "# TYPE m%d_%d_%s gauge\na{b=\"%d_%d_%s\"} 1\n", reads, i,
				strings.Repeat("x", 60_000), reads, i, strings.Repeat("x", 60_000))
		}
	})
	for range 20 {
		r.scrape()
		all, _ := r.encoder.Series()
		must.True(t, all <= minAnswer/60_000+1, "%d series of 60 KB are held", all)
	}
}

// TestNewTables: an hour, what could not be kept, another session and a table full of series that are gone begin a new
// table.
func TestNewTables(t *testing.T) {
	series := 0
	r := newRig(t, Options{MaxSeries: 10}, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 4 {
			_, _ = fmt.Fprintf(w, "a{i=\"%d\"} 1\n", series+i)
		}
	})
	starts := func() (n int) {
		for _, lines := range r.hours {
			n += bytes.Count(lines, []byte(`{"start"`))
		}
		return n
	}
	for i, step := range []struct {
		before func()
		starts int
	}{
		{func() {}, 1},
		{func() {}, 1},
		{func() { r.clock = r.clock.Add(time.Hour) }, 2},
		{func() { r.refuse = errors.New("full") }, 2},
		{func() { r.refuse = nil }, 3},
		{func() { series += 4 }, 3},
		{func() { series += 4 }, 3}, // two of four still fit; the table is full
		{func() {}, 4},
	} {
		step.before()
		r.scrape()
		says.Equal(t, starts(), step.starts, "step %d", i)
	}
	says.Equal(t, len(r.hours), 2, "hours")
	r.values()
}

// TestClockSteps: a clock that is set forwards or back, within the hour or out of it, costs no value: each read is kept
// with what changed since the read before it. Somebody is told when it is set back.
func TestClockSteps(t *testing.T) {
	n := 0
	r := newRig(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "steady 7\ncount %d\nseldom %d\n", n, n/3)
	})
	want := make(map[string]map[int64]float64)
	for _, step := range []time.Duration{0, 0, 10 * time.Minute, 0, -7 * time.Second, -20 * time.Second, 0,
		-5 * time.Minute, 0, 0, -time.Hour, 0, 2 * time.Hour, 0} {
		r.clock = r.clock.Add(step)
		r.scrape()
		for name, v := range map[string]int{"steady": 7, "count": n, "seldom": n / 3} {
			if want[name] == nil {
				want[name] = make(map[int64]float64)
			}
			want[name][r.clock.UnixMilli()] = float64(v)
		}
		n++
	}
	got := r.values()
	for name, values := range want {
		for at, v := range values {
			key := fmt.Sprintf(`%d %s{instance="127.0.0.1:%d", job="ray", ray_io_cluster="lab"}`, at, name,
				r.stream.ports[0])
			stored, ok := got.at[key]
			says.True(t, ok && stored == v, "%s: %v %t, want %v", key, stored, ok, v)
		}
	}
	said := 0
	for _, e := range r.log.AllEntries() {
		if strings.Contains(e.Message, "clock was set back") {
			said++
		}
	}
	says.True(t, said != 0, "nobody is told")
}

// TestRayRestartsWithinRead: what the next session's endpoints answer is not stored with the session that ran when the
// read began.
func TestRayRestartsWithinRead(t *testing.T) {
	for next, want := range map[string]int{"session_2026-11-21_00-00-00_000000_1": 0, "": 1, session: 1} {
		running := session
		r := newRig(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
			running = next
			_, _ = io.WriteString(w, "# TYPE x gauge\nx 1\n")
		})
		r.opts.Running = func() (string, error) { return running, nil }
		r.ScrapeOnce(t.Context())
		says.Equal(t, len(r.hours), want, "%q is next: hours whose lines are stored", next)
	}
}

// TestReadCutOff: a read that the collector's end cuts off takes nothing from the last one, which follows it.
func TestReadCutOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	r := newRig(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n > 1 {
			_, _ = io.WriteString(w, "b 2\n") // a new series
		}
		_, _ = fmt.Fprintf(w, "a %d\n", n)
	})
	keep := r.opts.Append
	r.opts.Append = func(ctx context.Context, session string, node rayid.Node, hour time.Time, lines []byte) error {
		if n == 2 {
			cancel()
		}
		return keep(ctx, session, node, hour, lines)
	}
	r.scrape()
	r.ScrapeOnce(ctx)
	r.scrape()
	got := r.values()
	for name, want := range map[string]float64{"a": 3, "b": 2} {
		key := fmt.Sprintf(`%d %s{instance="127.0.0.1:%d", job="ray", ray_io_cluster="lab"}`, r.clock.UnixMilli(), name,
			r.stream.ports[0])
		v, ok := got.at[key]
		says.True(t, ok && v == want, "%s: %v %t, want %v", key, v, ok, want)
	}
}

// TestFilesOfTheSession: what user code may have put into the session's folder is neither followed nor waited for.
func TestFilesOfTheSession(t *testing.T) {
	r := newRig(t, Options{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a 1\n") })
	folder := filepath.Join(r.dir, session)
	for name, plant := range map[string]func(path string) error{
		"a link out of the folder": func(path string) error { return os.Symlink("/etc/hostname", path) },
		"a folder":                 func(path string) error { return os.Mkdir(path, 0o755) },
		"no port":                  func(path string) error { return os.WriteFile(path, []byte("99999"), 0o644) },
		"a large file":             func(path string) error { return os.WriteFile(path, make([]byte, 2<<20), 0o644) },
	} {
		path := filepath.Join(folder, portFile+node.String())
		must.OK(t, os.RemoveAll(path))
		must.OK(t, plant(path))
		found, err := metricsPorts(r.dir, session, node, true, "127.0.0.1")
		says.True(t, err != nil, "%s: ports %v", name, found)
	}
	r.scrape()
	says.True(t, len(r.hours) == 0, "appended %q", r.hours)
}

func FuzzExposition(f *testing.F) {
	text := recorded(f, "ray-2.60-1.txt.zst")
	f.Add(text[:min(len(text), 20_000)])
	f.Add([]byte("# HELP a b\n# TYPE a gauge\na{x=\"\\\\\",y=\"}\"} 1 2 # {} 3\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e samples.Encoder
		e.Start([][]samples.Label{nil})
		e.Begin(0, time.UnixMilli(1))
		if _, _, err := readExposition(bytes.NewReader(data), &table{encoder: &e, max: 100, share: 100}); err != nil {
			t.Fatal(err)
		}
		e.End()
		v := &values{at: make(map[string]float64), kinds: make(map[string]samples.Metric)}
		d := samples.NewDecoder(v)
		for line := range bytes.Lines(e.Lines()) {
			must.OK(t, d.Line(t.Context(), line), line)
		}
	})
}

// TestLatestIsOfTheLastRead: what could not be read now is not answered from an earlier read, which would look like the
// values of now.
func TestLatestIsOfTheLastRead(t *testing.T) {
	running, status := session, http.StatusOK
	r := newRig(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "a 1\n")
	})
	r.opts.Running = func() (string, error) { return running, nil }
	check := func(about string, want int) {
		t.Helper()
		r.scrape()
		recorder := httptest.NewRecorder()
		r.Latest().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics/ray", nil))
		response.Is(t, recorder, want, "", "%s: status %d, %q; want %d", about, recorder.Code, recorder.Body, want)
	}
	check("at first", http.StatusOK)
	status = http.StatusInternalServerError
	check("the exporter fails", http.StatusNotFound)
	status = http.StatusOK
	check("it answers again", http.StatusOK)
	running = ""
	check("Ray has ended", http.StatusNotFound)
	running = session
	check("Ray runs again", http.StatusOK)
	must.OK(t, os.Remove(filepath.Join(r.dir, session, portFile+node.String())))
	check("there is no exporter", http.StatusNotFound)
}

// TestResetConnections: errors that differ only in the port that the collector had are one message.
func TestResetConnections(t *testing.T) {
	r := newRig(t, Options{})
	for source := range 5 {
		r.recordFailure(8080, &net.OpError{Op: "read", Net: "tcp",
			Source: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000 + source},
			Addr:   &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, Err: syscall.ECONNRESET})
	}
	r.recordFailure(8080, errTooLong)
	if lines := r.log.AllEntries(); len(lines) != 2 || !strings.Contains(lines[0].Message, "connection reset") {
		t.Errorf("%d lines, want two", len(lines))
	}
}

// TestTooManySeriesAreLoggedOnce: however many there are in each read. The metric counts them.
func TestTooManySeriesAreLoggedOnce(t *testing.T) {
	count := 10
	r := newRig(t, Options{MaxSeries: 2}, func(w http.ResponseWriter, _ *http.Request) {
		count++
		for i := range count {
			_, _ = fmt.Fprintf(w, "a{i=\"%d\"} 1\n", i)
		}
	})
	for range 3 {
		r.scrape()
	}
	if lines := r.log.AllEntries(); len(lines) != 1 || !strings.Contains(lines[0].Message, "--metrics-max-series=2") {
		t.Errorf("%d lines, want one", len(lines))
	}
}
