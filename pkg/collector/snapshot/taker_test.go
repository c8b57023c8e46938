package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const (
	recorded = "session_2026-11-20_23-19-45_581717_22125"
	nodeA    = "11ddada2522c973b78d21316e6e058f54500e29f808a1ee396c6e558"
)

// dashboard is a stub that answers what it is told to.
type dashboard struct {
	mu      sync.Mutex
	answers map[string]string // URL → body
	asked   []string
	header  http.Header
	fail    map[string]bool // URLs answered with 503
}

func (d *dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	d.asked = append(d.asked, r.URL.String())
	d.header = r.Header
	body, ok := d.answers[r.URL.String()]
	fail := d.fail[r.URL.String()]
	d.mu.Unlock()
	if fail {
		http.Error(w, "later", http.StatusServiceUnavailable)
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, body)
}

func (d *dashboard) set(url, body string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers[url] = body
}

func (d *dashboard) count(url string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range d.asked {
		if u == url {
			n++
		}
	}
	return n
}

type rig struct {
	*Taker
	dashboard *dashboard
	server    *httptest.Server
	store     *storetest.Store
	dir       string
	series    strings.Builder
	versions  map[string]string
	zones     map[string]string // when the version was told
	nodes     map[string]int
	logged    *logtest.Hook
}

func version(session string) string {
	return `{"version":"4","ray_version":"2.60.0","ray_commit":"b7","session_name":"` + session + `"}`
}

func newRig(t *testing.T, answers map[string]string) *rig {
	r := &rig{dashboard: &dashboard{answers: maps.Clone(answers)}, store: &storetest.Store{}, dir: t.TempDir()}
	r.server = httptest.NewServer(r.dashboard)
	t.Cleanup(r.server.Close)
	r.restart(t, nil)
	return r
}

func key(session, url string) string {
	return layout.SnapshotKey("log", layout.Session{Namespace: "default", Cluster: "lab", Name: session}, url)
}

func (r *rig) restart(t *testing.T, change func(*Options)) {
	log, logged := logtest.NewNullLogger()
	r.logged = logged
	client := must.Get(NewClient(r.server.URL, Token("", "", nil)))(t)
	client.http.Timeout = 10 * time.Minute // answers of 64 MiB take a loaded machine longer than a dashboard may
	r.versions, r.zones, r.nodes = map[string]string{}, map[string]string{}, map[string]int{}
	zone := ""
	o := Options{
		Client: client, Store: r.store, Key: key, Dir: r.dir, Log: log, Registerer: prometheus.NewRegistry(),
		Series: func(_ context.Context, session string, hour time.Time, lines []byte) error {
			r.series.Write(lines)
			return nil
		},
		Check:   func(string) error { return nil },
		Prepare: func(context.Context, string) error { return nil },
		Version: func(session, version string) { r.versions[session], r.zones[session] = version, zone },
		Zone:    func(_, offset string) { zone = offset },
		Nodes:   func(session string, n int) { r.nodes[session] = n },
		// Real time passes in these tests; the gap between versions has a test of its own.
		Interval: time.Nanosecond,
	}
	if change != nil {
		change(&o)
	}
	r.Taker = New(o)
}

// stored lists the session's stored URLs with how often each is stored.
func (r *rig) stored(t *testing.T, session string) map[string]int {
	t.Helper()
	count := map[string]int{}
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: session}
	for _, k := range r.store.Keys() {
		o, err := layout.ParseObject("log", ref, k)
		if err == nil && o.Kind == layout.Snapshot {
			count[o.Path]++
		}
	}
	return count
}

// end takes the last snapshots and stores what was kept.
func (r *rig) end(t *testing.T) error {
	r.Final(t.Context())
	return r.Finish(t.Context())
}

// last is the latest version of a URL.
func (r *rig) last(session, url string) string {
	body := ""
	for _, k := range r.store.Keys() {
		if whole, _, _, _ := layout.ParseChunk(k); whole == key(session, url) {
			body = string(r.store.Object(k))
		}
	}
	return body
}

func golden(t *testing.T) map[string]string {
	answers := map[string]string{}
	for _, a := range recording.Open(t).Golden() {
		if a.Status == http.StatusOK {
			answers[a.URL] = string(a.Body)
		}
	}
	for _, e := range periodic { // the recording asked for some with fewer rows
		if short, ok := answers[strings.ReplaceAll(e.url, "&limit=10000", "")]; ok && answers[e.url] == "" {
			answers[e.url] = short
		}
	}
	return answers
}

func TestRecordedDashboard(t *testing.T) {
	r := newRig(t, golden(t))
	r.Round(t.Context())
	stored := r.stored(t, recorded)
	for _, want := range append([]string{
		"/nodes?view=summary", "/nodes/" + nodeA, "/logical/actors", "/api/jobs", "/api/data/datasets/04000000",
		"/events", "/api/serve/applications",
		"/api/v0/workers?detail=1&limit=10000", "/api/v0/placement_groups?detail=1&limit=10000",
		"/api/cluster_status?format=1", zoneURL,
	}, onceURLs...) {
		says.Equal(t, stored[want], 1, "%s is stored", want)
	}
	says.Equal(t, stored["/api/v0/platform_events?detail=1&limit=10000"], 0, "an answer with status 404 is stored")
	says.True(t, r.versions[recorded] == "2.60.0" && r.zones[recorded] == "+00:00" && r.nodes[recorded] == 3,
		"told versions %v, zones %v, nodes %v", r.versions, r.zones, r.nodes)
	total := len(r.store.Keys())
	r.Round(t.Context())
	r.restart(t, nil)
	r.Round(t.Context())
	n := len(r.store.Keys())
	says.True(t, n == total, "%d objects after rounds in which nothing changed, %d before", n, total)
	says.Equal(t, r.dashboard.count("/cluster_id"), 1, "/cluster_id was asked for")
	says.Equal(t, r.dashboard.count("/api/data/datasets/04000000"), 1, "the datasets of an ended job were asked for")

	lines := strings.Split(strings.TrimSpace(r.series.String()), "\n")
	must.True(t, len(lines) == 9, "%d samples of 3 nodes in 3 rounds", len(lines))
	var s layout.Sample
	must.OK(t, json.Unmarshal([]byte(lines[0]), &s))
	want := layout.Sample{Time: 1795216909365, Node: nodeA, CPU: 10.3, Mem: [2]int64{2965053440, 25276514304},
		Disk:  [2]int64{17720311808, 270553174016},
		Store: [2]int64{332441, 300000000}, DiskIO: [2]int64{36221, 88784}, Net: [2]int64{14776, 4775}, Workers: 9}
	says.Equal(t, fmt.Sprint(s), fmt.Sprint(want), "sample %+v, want %+v", s, want)
	// A node-day at a sample each 30 s.
	bytes := len(lines[0]) * 2880
	says.True(t, bytes <= 1<<20, "%d bytes a node-day", bytes)
}

func TestOnlyChangesAreStored(t *testing.T) {
	const (
		before = `{"data":{"summary":[{"now":1.5,"cpu":3,"gpus":[{"name":"A","utilizationGpu":1}],"raylet":{"nodeId":"` + nodeA + `","state":"ALIVE","storeStats":{"x":1}}}],"nodeLogicalResources":{"a":"1/2 CPU"}}}`
		moved  = `{"data":{"summary":[{"now":9.5,"cpu":9,"gpus":[{"name":"A","utilizationGpu":9}],"raylet":{"nodeId":"` + nodeA + `","state":"ALIVE","storeStats":{"x":9}}}],"nodeLogicalResources":{"a":"2/2 CPU"}}}`
		dead   = `{"data":{"summary":[{"now":9.5,"cpu":9,"gpus":[{"name":"A","utilizationGpu":9}],"raylet":{"nodeId":"` + nodeA + `","state":"DEAD","storeStats":{"x":9}}}],"nodeLogicalResources":{"a":"2/2 CPU"}}}`
		status = "======== Autoscaler status: 2026-11-20 23:21:46 ========\\nActive:\\n 1 head\\n\\nTotal Usage:\\n 0.8/8.0 CPU\\n\\nPending Demands:\\n none"
	)
	r := newRig(t, map[string]string{
		"/api/version": version(recorded), summaryURL: before, jobsURL: `[]`,
		"/nodes/" + nodeA:              `{"data":{"detail":{"now":1,"workers":[{"pid":1,"cpuPercent":2}]}}}`,
		"/api/cluster_status?format=1": `{"data":{"clusterStatus":"` + status + `"}}`,
	})
	r.Round(t.Context())
	count := func(url string, want int) {
		t.Helper()
		says.Equal(t, r.stored(t, recorded)[url], want, "%s is stored", url)
	}
	r.dashboard.set(summaryURL, moved)
	r.dashboard.set("/nodes/"+nodeA, `{"data":{"detail":{"now":2,"workers":[{"pid":1,"cpuPercent":3}]}}}`)
	r.dashboard.set("/api/cluster_status?format=1",
		`{"data":{"clusterStatus":"`+strings.NewReplacer("23:21", "23:22", "0.8/", "0.9/").Replace(status)+`"}}`)
	r.Round(t.Context())
	count(summaryURL, 1)
	count("/nodes/"+nodeA, 1)
	count("/api/cluster_status?format=1", 1)

	time.Sleep(2 * time.Millisecond) // versions are told apart by milliseconds
	r.dashboard.set(summaryURL, dead)
	r.dashboard.set("/nodes/"+nodeA, `{"data":{"detail":{"now":2,"workers":[{"pid":2,"cpuPercent":3}]}}}`)
	r.dashboard.set("/api/cluster_status?format=1",
		`{"data":{"clusterStatus":"`+strings.Replace(status, "1 head", "2 head", 1)+`"}}`)
	r.Round(t.Context())
	count(summaryURL, 2)
	count("/nodes/"+nodeA, 2)
	count("/api/cluster_status?format=1", 2)
	says.Equal(t, r.last(recorded, summaryURL), dead, "the last version")
}

func TestEndOfSession(t *testing.T) {
	answers := map[string]string{"/api/version": version(recorded),
		summaryURL:        `{"data":{"summary":[{"cpu":1,"raylet":{"nodeId":"` + nodeA + `","state":"ALIVE"}}]}}`,
		"/nodes/" + nodeA: `{"cpu":1}`}
	for name, end := range map[string]func(*testing.T, *rig){
		"the dashboard answers": func(t *testing.T, r *rig) {
			says.OK(t, r.end(t))
		},
		"the dashboard is gone": func(t *testing.T, r *rig) {
			r.Round(t.Context())
			r.server.Close()
			says.OK(t, r.end(t))
		},
		"the collector was killed and finds another session": func(t *testing.T, r *rig) {
			r.Round(t.Context())
			r.restart(t, nil)
			r.dashboard.set("/api/version", version("session_2026-11-21_00-00-00_000000_1"))
			r.Round(t.Context())
			_, err := os.Stat(filepath.Join(r.dir, recorded))
			says.True(t, os.IsNotExist(err), "the state of the session that is over: %v", err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, answers)
			r.Round(t.Context())
			time.Sleep(2 * time.Millisecond)
			r.dashboard.set("/nodes/"+nodeA, `{"cpu":2}`) // only figures
			end(t, r)
			says.Equal(t, r.last(recorded, "/nodes/"+nodeA), `{"cpu":2}`, "the last answer about the node")
		})
	}
}

// TestNumbersOfPython: figures that are NaN or infinite keep neither the other figures nor the nodes' details from
// being stored, and are no changes of an answer.
func TestNumbersOfPython(t *testing.T) {
	answers := golden(t)
	r := newRig(t, answers)
	r.Round(t.Context())
	figures := r.series.Len()
	number := regexp.MustCompile(`"(cpu|utilizationGpu|memoryUsed)": *[0-9.]+`)
	for i, odd := range []string{"NaN", "Infinity", "-Infinity"} {
		summary := number.ReplaceAllString(answers[summaryURL], `"$1": `+odd)
		must.True(t, summary != answers[summaryURL], "the recorded answer has no such figures")
		r.dashboard.set(summaryURL, summary)
		r.Round(t.Context())
		says.True(t, r.series.Len() > figures, "%s: no figures are stored", odd)
		figures = r.series.Len()
		says.Equal(t, r.dashboard.count("/nodes/"+nodeA), i+2, odd+": requests for a node's details")
		says.Equal(t, r.stored(t, recorded)[summaryURL], 1, odd+": stored versions")
	}
	says.Equal(t, testutil.ToFloat64(r.metrics.errors), 0, "errors")
}

func TestAllowance(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded)})
	r.restart(t, func(o *Options) { o.Interval, o.MaxBytes = time.Millisecond, 10_000 })
	for i := range 200 {
		r.dashboard.set("/events", fmt.Sprintf(`{"n":%d,"pad":"%s"}`, i, strings.Repeat("x", 200)))
		r.Round(t.Context())
		time.Sleep(time.Millisecond)
	}
	says.True(t, r.session.Bytes <= 10_000, "%d bytes stored of 10,000", r.session.Bytes)
	n := r.stored(t, recorded)["/events"]
	says.True(t, n >= 10 && n <= 50, "%d versions", n)
	must.OK(t, r.end(t))
	got := r.last(recorded, "/events")
	says.True(t, strings.HasPrefix(got, `{"n":199,`), "the last version is %.20s", got)
}

// However long ago the last version was stored, the next one waits if it would not fit.
func TestAllowanceOfLargeAnswers(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded)})
	r.restart(t, func(o *Options) { o.Interval, o.MaxBytes = time.Microsecond, 10_000 })
	for i := range 6 {
		r.dashboard.set("/events", fmt.Sprintf(`{"n":%d,"pad":"%s"}`, i, strings.Repeat("x", 3000)))
		r.Round(t.Context())
		time.Sleep(10 * time.Millisecond)
	}
	says.True(t, r.session.Bytes <= 10_000 && r.stored(t, recorded)["/events"] == 3,
		"%d bytes stored of 10,000; versions: %v", r.session.Bytes, r.stored(t, recorded))
	must.OK(t, r.end(t))
	got := r.last(recorded, "/events")
	says.True(t, strings.HasPrefix(got, `{"n":5,`), "the last version is %.20s", got)
}

// TestClockThatIsSetBack: later answers are stored at once, and as the later ones.
func TestClockThatIsSetBack(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/events": `1`})
	r.restart(t, func(o *Options) { o.Interval = time.Minute })
	r.Round(t.Context())
	ahead := time.Now().Add(24 * time.Hour)
	r.session.URLs["/events"].Stored = ahead.UnixMilli() // by a clock that was a day ahead
	r.dashboard.set("/events", `2`)
	r.next = make(map[string]time.Time)
	r.Round(t.Context())
	if !slices.ContainsFunc(r.store.Keys(), func(k string) bool {
		return k > layout.SnapshotVersionKey(key(recorded, "/events"), ahead) &&
			strings.HasPrefix(k, key(recorded, "/events"))
	}) {
		t.Errorf("stored: %q, want an answer after %d", r.store.Keys(), ahead.UnixMilli())
	}
}

func TestInterval(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/events": `1`})
	r.restart(t, func(o *Options) { o.Interval = 30 * time.Second })
	var got []string
	for i := range 9 {
		if i == 7 {
			r.dashboard.set("/nodes?view=hostNameList", `["a"]`)
		}
		r.Round(t.Context())
		got = append(got, r.interval.String())
	}
	want := []string{"30s", "45s", "1m7.5s", "1m41.25s", "2m31.875s", "3m47.8125s", "4m0s", "30s", "45s"}
	says.EqualSlices(t, got, want, "intervals")
}

func TestBackendFails(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/events": `1`})
	fail := true
	r.store.Fault = func(string) storetest.Fault {
		if fail {
			return storetest.LostReply
		}
		return storetest.None
	}
	r.Round(t.Context())
	fail = false
	time.Sleep(2 * time.Millisecond)
	r.Round(t.Context())
	says.Equal(t, r.last(recorded, "/events"), `1`, "stored")
}

func TestHugeAnswerIsRefused(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded),
		"/events": strings.Repeat("x", layout.MaxSnapshot+1)})
	r.Round(t.Context())
	says.Equal(t, r.stored(t, recorded)["/events"], 0, "stored")
	left, err := filepath.Glob(filepath.Join(r.dir, recorded, "*.tmp"))
	says.True(t, err == nil && len(left) == 0, "left %v, %v", left, err)
}

func TestAdditionalEndpoints(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/custom?x=1": "not JSON"})
	r.restart(t, func(o *Options) { o.Additional = []string{"/custom?x=1"} })
	r.Round(t.Context())
	r.Round(t.Context())
	if got := r.last(recorded, "/custom?x=1"); got != "not JSON" || r.dashboard.count("/custom?x=1") != 2 {
		t.Errorf("stored %q, asked %d times", got, r.dashboard.count("/custom?x=1"))
	}
}

func TestNoDashboard(t *testing.T) {
	r := newRig(t, nil)
	r.server.Close()
	r.Round(t.Context())
	err := r.end(t)
	says.True(t, err == nil && len(r.store.Keys()) == 0, "%v, stored %v", err, r.store.Keys())
}

func TestToken(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	file, missing, empty := filepath.Join(home, "token"), filepath.Join(home, "missing"), filepath.Join(home, "empty")
	for path, token := range map[string]string{file: "from-file\n", empty: "",
		filepath.Join(home, ".ray/auth_token"): "from-home"} {
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.OK(t, os.WriteFile(path, []byte(token), 0o600))
	}
	for name, test := range map[string]struct {
		token       func() (string, error)
		want, error string
	}{
		"off":   {token: Token("disabled", "value", []string{file})},
		"value": {token: Token("TOKEN", " value\n", []string{file}), want: "value"},
		"file":  {token: Token("token", "", []string{file}), want: "from-file"},
		"the first file that has one": {token: Token("token", "", []string{missing, empty, file}),
			want: "from-file"},
		"home":                                 {token: Token("token", "", TokenFiles("", false)), want: "from-home"},
		"home where Kubernetes mounts nothing": {token: Token("token", "", TokenFiles("", true)), want: "from-home"},
		"none":                                 {token: Token("token", "", []string{missing, empty}), error: missing},
	} {
		got, err := test.token()
		says.True(t, got == test.want && (err == nil) == (test.error == "") &&
			(err == nil || strings.Contains(err.Error(), test.error)), "%s: token %q, %v, want %q", name, got, err,
			test.want)
	}
	if files := TokenFiles("", true); files[0] != "/var/run/secrets/ray.io/serviceaccount/token" {
		t.Errorf("Kubernetes' token is looked for in %v", files)
	}
	files := TokenFiles(file, true)
	says.True(t, len(files) == 1 && files[0] == file, "the file that was set is one of %v", files)
	d := &dashboard{answers: map[string]string{"/x": "y"}}
	server := httptest.NewServer(d)
	defer server.Close()
	client := must.Get(NewClient(strings.TrimPrefix(server.URL, "http://")+"/", Token("token", "secret", nil)))(t)
	body := must.Get(client.Get(t.Context(), "/x"))(t)
	_ = body.Close()
	says.Equal(t, d.header.Get("X-Ray-Authorization"), "Bearer secret", "header %v", d.header)
	says.True(t, client.http.Transport.(*http.Transport).Proxy == nil,
		"the dashboard is asked, and the token sent, through the environment's proxy")
	for _, bad := range []string{"", "http://", "ftp://x", "http://a b"} {
		says.True(t, says.Err(NewClient(bad, nil)) != nil, "NewClient(%q) is no error", bad)
	}
}

func TestDigest(t *testing.T) {
	v := volatileKeys("skip").addKeys("now")
	same := [][2]string{
		{`{"a":1,"skip":{"x":[1,2]},"now":1}`, `{"a":1,"skip":7,"now":2}`},
		{`{"a":1,"b":{"c":[1],"d":2}}`, `{"b":{"d":2,"c":[1]},"a":1}`},
		{`[{"now":1},"b"]`, "[ {\"now\": {}} , \"b\" ]"},
	}
	for _, pair := range same {
		if a, b := sum(t, pair[0], v), sum(t, pair[1], v); a != b {
			t.Errorf("%s and %s differ", pair[0], pair[1])
		}
	}
	different := []string{`{"a":1}`, `{"a":"1"}`, `{"a":[1]}`, `{"a":[[1]]}`, `{"a":[1,2]}`, `{"a":[2,1]}`,
		`{"a":{"b":1}}`, `{"b":{"a":1}}`, `{}`, `[]`, `[{}]`, `{"a":{}}`, `["a",1]`, `["a","1"]`, `["a1"]`,
		`{"a":1,"b":null}`, `{"a":1.0}`, `not`, `not json`, `{"a":1} {"a":1}`, ``, `{"a":1`}
	seen := map[string]string{}
	for _, s := range different {
		d := sum(t, s, v)
		other, ok := seen[d]
		says.True(t, !ok, "%s and %s are the same", s, other)
		seen[d] = s
	}
}

func sum(t *testing.T, s string, v volatile) string {
	t.Helper()
	return must.Get(digest(strings.NewReader(s), v))(t)
}

// What every worker is asked for is asked for less often the longer it takes.
func TestCostlyAnswersRest(t *testing.T) {
	for _, e := range periodic {
		says.Equal(t, e.costly, strings.Contains(e.url, "/objects"), "%s is costly", e.url)
	}
	e := endpoint{costly: true}
	for took, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond: 5 * time.Second,
		time.Second:           100 * time.Second,
		10 * time.Second:      2 * time.Minute,
	} {
		says.Equal(t, e.pauseAfter(took), want, "after an answer that took %s, left alone for", took)
	}
	says.Equal(t, (endpoint{}).pauseAfter(time.Second), 0, "left alone for")
}

// TestRecordingsAreAskedTheSame: sessions of recordings have the answers that a collector stores.
func TestRecordingsAreAskedTheSame(t *testing.T) {
	want := append([]string{zoneURL}, onceURLs...)
	for _, e := range periodic {
		want = append(want, e.url)
	}
	got := slices.Clone(recording.SnapshotURLs)
	slices.Sort(want)
	slices.Sort(got)
	says.EqualSlices(t, got, want, "recordings are asked")
}
