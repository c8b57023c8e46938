package dashboard

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
)

// TestFromBrowser: it is the headers that a browser sends, not what they say.
func TestFromBrowser(t *testing.T) {
	for header, want := range map[string]bool{
		"User-Agent: Mozilla/5.0": true, "User-Agent: python-requests/2.32": false, "Referer: ": true,
		"Sec-Fetch-Mode: cors":               true,
		"Access-Control-Request-Method: GET": true, "Accept: */*": false,
	} {
		name, value, _ := strings.Cut(header, ": ")
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(name, value)
		says.Equal(t, FromBrowser(r), want, header)
	}
}

func TestRedact(t *testing.T) {
	const env = `{"working_dir": "/x", "env_vars": {"B": "secret1", "A": "secret2"}}`
	says.Equal(t, redactSerialized(env), `{"env_vars": {"A": "<redacted>", "B": "<redacted>"}, "working_dir": "/x"}`)
	v, err := pyjson.Parse([]byte(
		`{"apps": [{"runtime_env": {"env_vars": {"A": "s"}}, "n": 1, "x": {"ray_actor_options": {"runtime_env": {"env_vars": {"B": "s"}}}}}]}`))
	must.OK(t, err)
	const want = `{"apps": [{"runtime_env": {"env_vars": {"A": "<redacted>"}}, "n": 1, "x": {"ray_actor_options": {"runtime_env": {"env_vars": {"B": "<redacted>"}}}}}]}`
	w := httptest.NewRecorder()
	must.OK(t, writeJSON(w, http.StatusOK, masked(v)))
	says.Equal(t, w.Body.String(), want)
}

// TestChangedAnswersAreNotCopied: a saved answer may take much more memory than its text, and many may ask for it at
// once. It is changed while it is written.
func TestChangedAnswersAreNotCopied(t *testing.T) {
	text := `{"datasets": [` + strings.Repeat(`{"operators": [{}], "x": {}},`, 100_000) + `{}]}`
	v := must.Get(pyjson.ParseObject([]byte(text)))(t)
	for name, answer := range map[string]func() any{
		"masked": func() any { return masked(v) },
		"filled": func() any { return withFigures(v, map[datasetFigure]string{{column: "x", name: "max"}: "1"}) },
	} {
		used := storetest.Allocated(func() { _ = writeJSON(gone{}, http.StatusOK, answer()) })
		says.True(t, used <= 8<<20, "%s: %d bytes were allocated before the first were sent", name, used)
	}
}

// gone is a client that went away.
type gone struct{}

func (gone) Header() http.Header         { return http.Header{} }
func (gone) Write(p []byte) (int, error) { return 0, io.ErrClosedPipe }
func (gone) WriteHeader(int)             {}

// with asks with a header and gives the answer's body.
func (a *asker) with(header, value, url string) string {
	r := httptest.NewRequest("GET", url, nil)
	r.Header.Set(header, value)
	w := httptest.NewRecorder()
	a.mux.ServeHTTP(w, r)
	return w.Body.String()
}

// TestNullsForBrowsers: a browser gets no size that is null, a tool what Ray said.
func TestNullsForBrowsers(t *testing.T) {
	a := recorded(t)
	id := a.data("/nodes?view=summary").List("summary")[0].(*pyjson.Object).Object("raylet").String("nodeId")
	for header, want := range map[string]bool{"Referer": false, "X-Tool": true} {
		answer := must.Get(pyjson.ParseObject([]byte(a.with(header, "http://localhost/", "/nodes/"+id))))(t)
		workers := string(pyjson.Append(nil, answer.Object("data").Object("detail").List("workers")))
		says.Equal(t, strings.Contains(workers, `"pfaults": null`), want, "with %s: null", header)
	}
}

// TestRoutesDocs: docs/compatibility.md has a row for every request that is answered, and none for one that is not.
func TestRoutesDocs(t *testing.T) {
	const document = "../../docs/compatibility.md"
	text := must.Get(os.ReadFile(document))(t)
	_, table, begins := strings.Cut(string(text), "<!-- routes -->")
	table, _, ends := strings.Cut(table, "<!-- end of routes -->")
	must.True(t, begins && ends, "%s has no table of routes between its marks", document)
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		told[m[1]] = true
	}
	served := map[string]bool{}
	for _, route := range New(Options{}).Routes() {
		// Grafana's pages are none of Ray's dashboard.
		if route.Method == http.MethodGet && !refuses(route) && !strings.HasPrefix(route.Path, "/grafana/") {
			served[route.Path] = true
		}
	}
	for path := range served {
		says.True(t, told[path], "%s does not tell where %s comes from", document, path)
	}
	for path := range told {
		says.True(t, served[path], "%s tells of %s, which is not served", document, path)
	}
}

// refuses says whether a route is answered by a refusal, whatever is asked.
func refuses(route Route) bool {
	for _, r := range refusals {
		if r.method == route.Method && r.path == route.Path {
			w := httptest.NewRecorder()
			route.Serve(w, nil)
			return w.Code == http.StatusMethodNotAllowed
		}
	}
	return false
}

// TestMemoryOfAnswers: workers that only the names of logs tell of, cluster events and names of tasks take memory too.
func TestMemoryOfAnswers(t *testing.T) {
	files, events, tasks := map[string]string{"raylet.out": "x"}, "", ""
	few, _ := withLogs(t, files)
	for i := range logsOfWorker * (littleBytes/rowBytes + 1) {
		files[fmt.Sprintf("python-core-worker-%056x_%d.log", i+1, i+1)] = ""
		events += fmt.Sprintf(`{"event_id": "%d", "timestamp": 1}`+"\n", i)
		tasks += fmt.Sprintf(`{"taskDefinitionEvent": {"taskId": %q, "jobId": "AQAAAA==", "taskType": "NORMAL_TASK", `+
			`"taskName": "%d"}}`+"\n", base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%020d\x01\x00\x00\x00", i)),
			i)
	}
	files["events/event_GCS.log"] = events
	many, _ := withLogs(t, files)
	dir := t.TempDir()
	put(t, dir, layout.NodeEventsKey(layout.DefaultRoot, lab, rayid.Node{1}, time.Unix(1795216800, 0)), tasks)
	names := newAsker(t, load(t, dir, lab), Options{})
	for _, tt := range []struct {
		url    string
		many   *asker
		memory int64
	}{
		{"/api/v0/workers", many, littleBytes}, {"/api/v0/cluster_events", many, littleBytes},
		{"/events", many, littleBytes}, {"/api/v0/tasks/summarize", names, 3 * littleBytes / 2},
	} {
		for a, status := range map[*asker]int{few: http.StatusOK, tt.many: http.StatusServiceUnavailable} {
			w := newAsker(t, a.session, Options{Memory: budget.New(budget.Options{Bytes: tt.memory})}).get(tt.url)
			if w.Code != status || status != http.StatusOK && !strings.Contains(w.Body.String(), "--max-answer-memory") {
				t.Errorf("%s: %d %.200s, want %d", tt.url, w.Code, w.Body, status)
			}
		}
	}
}

// TestQueryAsPython: no parameter is lost, which would make a filter pass everything.
func TestQueryAsPython(t *testing.T) {
	for raw, want := range map[string]url.Values{
		"":                              {},
		"a=1&b=x+y%20z&a=2&&c&d=%3D":    {"a": {"1", "2"}, "b": {"x y z"}, "c": {""}, "d": {"="}},
		"limit=1;detail=true":           {"limit": {"1;detail=true"}},
		"a=50%&b=%zz&c=%4&%=%25&d=%%41": {"a": {"50%"}, "b": {"%zz"}, "c": {"%4"}, "%": {"%"}, "d": {"%A"}},
		"a=%ff=b":                       {"a": {"\xff=b"}},
	} {
		got := parseQuery(raw)
		says.True(t, maps.EqualFunc(got, want, slices.Equal), "%q: %q, want %q", raw, got, want)
	}
}

func TestCamelCase(t *testing.T) {
	for in, want := range map[string]string{
		"node_id": "nodeId", "CPU": "CPU", "object_store_memory": "objectStoreMemory",
		"node:__internal_head__": "node:InternalHead",
		"node_65976f1a5e":        "node65976F1A5E", "CPU_group_0_ab1": "CPUGroup0Ab1", "don't_stop'me": "don'tStop'Me",
	} {
		says.Equal(t, camelCase(in), want, "camelCase(%s)", in)
	}
	says.Equal(t, eventjson.SnakeCase("actorDiedErrorContext"), "actor_died_error_context")
}

func TestEnvelope(t *testing.T) {
	w := httptest.NewRecorder()
	writeEnvelope(w, http.StatusInternalServerError, "Unknown view ü", nil)
	got, want := w.Body.String(), `{"result": false, "msg": "Unknown view \u00fc", "data": {}}`
	says.True(t, got == want && w.Code == 500 && w.Header().Get("Content-Type") == jsonType, "%d %s", w.Code, got)
	var decoded map[string]any
	must.OK(t, json.Unmarshal(w.Body.Bytes(), &decoded))
}

// TestFinite: where Python writes NaN or Infinity, browsers get null; texts stay as they are.
func TestFinite(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Length", "1")
	f := &finite{ResponseWriter: w}
	for _, part := range []string{`{"a": N`, `aN, "b": [-Inf`, `inity, -1, "NaN"]}`} {
		wrote, err := f.Write([]byte(part))
		must.True(t, err == nil && wrote == len(part), "%v %v", wrote, err)
	}
	if got := w.Body.String(); got != `{"a": null, "b": [null, -1, "NaN"]}` || w.Header().Get("Content-Length") != "" {
		t.Errorf("%s %v", got, w.Header())
	}
	w = httptest.NewRecorder()
	w.Header().Set("Content-Type", textType)
	if _, err := (&finite{ResponseWriter: w}).Write([]byte("loss is NaN")); err != nil ||
		w.Body.String() != "loss is NaN" {
		t.Errorf("a text: %v, %s", err, w.Body)
	}
}

func BenchmarkFinite(b *testing.B) {
	part := []byte(strings.Repeat(
		`{"task_id": "0123456789abcdef0123456789abcdef", "state": "FINISHED", "attempt_number": 0, "x": -1.5}, `, 600))
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", jsonType)
	f := &finite{ResponseWriter: w}
	b.SetBytes(int64(len(part)))
	for b.Loop() {
		w.Body.Reset()
		_, _ = f.Write(part)
	}
}

// TestMemoryOfParsedTexts: memory is reserved for what JSON in events takes when it is parsed, not for its text.
func TestMemoryOfParsedTexts(t *testing.T) {
	keys := &strings.Builder{}
	for i := range 10_000 {
		fmt.Fprintf(keys, `"%d":0,`, i)
	}
	for _, text := range []string{
		`{"a":[` + strings.Repeat("{},", 10_000) + "{}]}", `{"a":[` + strings.Repeat("0,", 10_000) + "0]}",
		"{" + keys.String() + `"x":{}}`, `{"a":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + "}",
		`{"a":"` + strings.Repeat("x", 10_000) + `"}`,
	} {
		_, bytes, err := pyjson.ParseWithin([]byte(text), 1<<40)
		must.OK(t, err)
		s := &session.Session{Set: entities.Set{
			Jobs:        []entities.Job{{RuntimeEnv: text}},
			Submissions: []entities.Submission{{RuntimeEnv: text}},
			Actors:      []entities.Actor{{Transitions: []entities.ActorTransition{{DeathCause: []byte(text)}}}},
		}}
		jobs := int64(jobCount(s)) * rowBytes
		says.True(t, jobs >= 2*bytes, "%.20s: %d bytes are reserved for jobs, parsed it takes %d", text, jobs, 2*bytes)
		if actors := int64(actorCount(s)) * rowBytes; actors < bytes {
			t.Errorf("%.20s: %d bytes are reserved for actors, parsed it takes %d", text, actors, bytes)
		}
	}
}
