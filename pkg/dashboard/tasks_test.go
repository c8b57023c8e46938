package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// TestRefused: what Ray refuses is refused in its words.
func TestRefused(t *testing.T) {
	a := recorded(t)
	filter := func(key, predicate, value string) string {
		return "filter_keys=" + key + "&filter_predicates=" + predicate + "&filter_values=" + value
	}
	for url, want := range map[string]string{
		"actors?limit=abc":                           "invalid literal for int() with base 10: 'abc'",
		"actors?limit=":                              "invalid literal for int() with base 10: ''",
		"actors?limit=1__0":                          "invalid literal for int() with base 10: '1__0'",
		"actors?limit=it's":                          `invalid literal for int() with base 10: "it's"`,
		"actors?limit=-1":                            "Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.",
		"actors?timeout=1.5":                         "invalid literal for int() with base 10: '1.5'",
		"actors?detail=maybe":                        "Failed to convert a value maybe of type <class 'str'> to <class 'bool'>",
		"actors?exclude_driver=2":                    "Failed to convert a value 2 of type <class 'str'> to <class 'bool'>",
		"actors?limit=10001":                         "Given limit 10001 exceeds the supported limit 10000. Use a lower limit, or set the `RAY_MAX_LIMIT_FROM_API_SERVER` environment variable to a larger value.",
		"actors?" + filter("a", "%3E", "x"):          "Unsupported filter predicate > is given. Available predicates: =, !=.",
		"actors?filter_keys=a&filter_predicates=%3D": "1 filter_keys and 0 filter_values are given. Give one value for each key.",
		"actors?" + strings.Repeat(filter("a", "%3D", "x")+"&", 101): "101 filters are given. A request may have 100.",
		"actors?" + filter("state", "%3D", "odd"):                    "Invalid actor state for filtering: ODD",
		"actors?" + filter("job_id", "%3D", "zz"):                    "Non-hexadecimal digit found",
		"actors?" + filter("actor_id", "%3D", "ab"):                  "ID string needs to have length 16, got 1",
		"nodes?" + filter("state", "%3D", "x"):                       "Invalid node state for filtering: X",
		"tasks?limit=20000":                                          "Given limit 20000 exceeds the supported limit 10000.",
		"tasks?" + filter("bogus", "%3D", "x"): "The given filter column bogus is not supported. Enter filters with –-filter key=value or –-filter key!=value " +
			"Supported filter columns: {'actor_id', 'attempt_number', 'error_type', 'func_or_class_name', 'is_debugger_paused', 'job_id', 'language', 'name', 'node_id', " +
			"'parent_task_id', 'placement_group_id', 'state', 'task_id', 'type', 'worker_id', 'worker_pid'}",
		"tasks?" + filter("job_id", "%3D", "zz"):         "Non-hexadecimal digit found",
		"tasks?" + filter("attempt_number", "%3D", "x"):  "Invalid filter `--filter attempt_number x` for a int type column.",
		"tasks/summarize?filter_values=x":                "0 filter_keys and 1 filter_values are given.",
		"tasks/summarize?summary_by=colour":              `summary_by must be one of "func_name", "task_name", or "lineage".`,
		"tasks/summarize?" + filter("bogus", "%3D", "x"): "The given filter column bogus is not supported.",
		"tasks/timeline?job_id=0":                        "Odd-length string",
		"tasks/timeline?limit=-2":                        "limit=-2: want a number of task attempts, 0 or more",
	} {
		w := a.get("/api/v0/" + url)
		var reply struct {
			Result bool
			Msg    string
			Data   struct{ Result any }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil || w.Code != http.StatusBadRequest ||
			reply.Result || reply.Data.Result != nil || !strings.HasPrefix(reply.Msg, want) {
			t.Errorf("%s: status %d, %s; want 400 and %q", url, w.Code, w.Body, want)
		}
	}
	// What Ray's own store leaves out does not count as listed.
	list := a.data("/api/v0/nodes?" + filter("node_name", "%3D", "10.77.0.2")).Object("result")
	says.True(t, list.Int("total") == 3 && list.Int("num_after_truncation") == 1 && list.Int("num_filtered") == 1, "%s",
		pyjson.Append(nil, list))
}

func TestTimelineDownload(t *testing.T) {
	a := recorded(t)
	for url, want := range map[string]string{
		"/api/v0/tasks/timeline?download=1":                 `attachment; filename="timeline-None-`,
		"/api/v0/tasks/timeline?download=1&job_id=02000000": `attachment; filename="timeline-02000000-`,
		"/api/v0/tasks/timeline":                            "",
	} {
		got := a.get(url).Header().Get("Content-Disposition")
		says.True(t, strings.HasPrefix(got, want) && (want != "" || got == ""), "%s: Content-Disposition %q, want %q",
			url, got, want)
	}
	var few, all []any
	for url, into := range map[string]*[]any{"/api/v0/tasks/timeline?limit=1": &few,
		"/api/v0/tasks/timeline?limit=100000": &all} {
		must.OK(t, json.Unmarshal(a.get(url).Body.Bytes(), into))
	}
	says.True(t, len(few) != 0 && len(few) <= 10 && len(all) >= 1000, "%d events of one task, %d of all", len(few),
		len(all))
}

// TestDriverRow: a driver's row as Ray 2.60 answers it.
func TestDriverRow(t *testing.T) {
	events := []string{
		`{"taskDefinitionEvent":{"taskId":"//////////////////////////8BAAAA","taskType":"DRIVER_TASK","taskFunc":{},"jobId":"AQAAAA==",` +
			`"parentTaskId":"////////////////////////////////","placementGroupId":"////////////////////////","taskAttempt":0,"language":"PYTHON",` +
			`"taskName":"","requiredResources":{},"refIds":{},"serializedRuntimeEnv":"","labelSelector":{},"isDetachedActor":false}}`,
		`{"taskLifecycleEvent":{"taskId":"//////////////////////////8BAAAA","stateTransitions":[{"state":"RUNNING","timestamp":"2026-11-20T23:20:02.714750204Z"}],` +
			`"jobId":"AQAAAA==","taskAttempt":0,"nodeId":"","workerId":"","workerPid":0}}`,
	}
	a := newAsker(t, load(t, layouttest.WriteEvents(t, events, func(int) string {
		return layout.Prefix("log", lab) + "job_events/AQAAAA==/" + rayid.Node{1}.String() + "-2026-11-20-23"
	}), lab), Options{})
	const want = `{"result": true, "msg": "", "data": {"result": {"total": 1, "num_after_truncation": 1, "num_filtered": 1, "result": [{` +
		`"task_id": "ffffffffffffffffffffffffffffffffffffffff01000000", "attempt_number": 0, "name": "", "state": "RUNNING", "job_id": "01000000", ` +
		`"actor_id": null, "type": "DRIVER_TASK", "func_or_class_name": "", "parent_task_id": "ffffffffffffffffffffffffffffffffffffffffffffffff", ` +
		`"node_id": null, "worker_id": null, "worker_pid": null, "error_type": null, "language": "PYTHON", "required_resources": {}, ` +
		`"runtime_env_info": {"serialized_runtime_env": ""}, "placement_group_id": null, "events": [{"state": "RUNNING", "created_ms": 1795216802714.0}], ` +
		`"profiling_data": {}, "creation_time_ms": null, "start_time_ms": 1795216802714.0, "end_time_ms": null, "task_log_info": null, ` +
		`"error_message": null, "is_debugger_paused": null, "call_site": null, "label_selector": {}, "fallback_strategy": null}], ` +
		`"partial_failure_warning": "", "warnings": null}}}`
	says.Equal(t, a.get("/api/v0/tasks?detail=1&exclude_driver=false").Body.String(), want)
}

// TestListsDoNotWarnOfWhatIsNew: events that only a newer Ray sends are nothing wrong.
func TestListsDoNotWarnOfWhatIsNew(t *testing.T) {
	s := load(t, layouttest.WriteEvents(t, []string{`{"eventType":"NEWER_EVENT","newerEvent":{}}`}, func(int) string {
		return fmt.Sprintf("%snode_events/%s-2026-11-20-23", layout.Prefix("log", lab), rayid.Node{1})
	}), lab)
	says.Equal(t, len(s.Warnings), 1, "warnings %q", s.Warnings)
	a := newAsker(t, s, Options{})
	for _, url := range []string{"/api/v0/tasks", "/api/v0/actors", "/api/v0/tasks/summarize"} {
		got := a.get(url).Body.String()
		says.True(t, strings.Contains(got, `"warnings": null`), "%s: %s", url, got)
	}
}

// TestListsWarnOfDamage: whatever a list or a summary is of, it tells what of the session could not be read.
func TestListsWarnOfDamage(t *testing.T) {
	const shownWarnings = 10
	for _, damaged := range []int{1, shownWarnings, shownWarnings + 3} {
		dir := layouttest.WriteEvents(t, slices.Repeat([]string{"}{ no event"}, damaged), func(i int) string {
			return fmt.Sprintf("%snode_events/%s-2026-11-20-%02d", layout.Prefix("log", lab), rayid.Node{1}, i)
		})
		a := newAsker(t, load(t, dir, lab), Options{})
		for _, url := range []string{
			"/api/v0/tasks", "/api/v0/tasks/summarize", "/api/v0/tasks/summarize?summary_by=lineage", "/api/v0/actors",
			"/api/v0/actors/summarize", "/api/v0/jobs",
			"/api/v0/nodes", "/api/v0/workers", "/api/v0/placement_groups", "/api/v0/objects/summarize",
		} {
			var answer struct {
				Data struct {
					Result struct {
						Warnings []string
						Partial  *string `json:"partial_failure_warning"`
					}
				}
			}
			must.OK(t, json.Unmarshal(a.get(url).Body.Bytes(), &answer))
			got := answer.Data.Result
			if n := min(damaged, shownWarnings); len(got.Warnings) < n ||
				!strings.Contains(got.Warnings[n-1], fmt.Sprintf("-2026-11-20-%02d: ", n-1)) {
				t.Errorf("%s with %d damaged objects: warnings %q", url, damaged, got.Warnings)
			}
			says.True(t, damaged <= shownWarnings || strings.Contains(got.Warnings[shownWarnings], "3 more"),
				"%s with %d damaged objects: warnings %q", url, damaged, got.Warnings)
			if got.Partial != nil && *got.Partial != "" {
				t.Errorf("%s: partial_failure_warning %q, which Ray's Python API takes for a failure", url,
					*got.Partial)
			}
		}
	}
}

// BenchmarkTasks are requests about a session of 100,000 tasks.
func BenchmarkTasks(b *testing.B) {
	dir := b.TempDir()
	stats := must.Get(sessiongen.Write(dir, sessiongen.Options{Tasks: 100_000, Hours: 1}))(b)
	a := newAsker(b, load(b, dir, stats.Session), Options{})
	for name, url := range map[string]string{
		"list all columns of 10000": "/api/v0/tasks?detail=1&limit=10000",
		"list 100":                  "/api/v0/tasks",
		"list 100 failed":           "/api/v0/tasks?filter_keys=state&filter_predicates=%3D&filter_values=FAILED",
		"summary of a job":          "/api/v0/tasks/summarize?filter_keys=job_id&filter_predicates=%3D&filter_values=01000000",
		"lineage of a job":          "/api/v0/tasks/summarize?summary_by=lineage&filter_keys=job_id&filter_predicates=%3D&filter_values=01000000",
		"timeline":                  "/api/v0/tasks/timeline",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := &discard{header: http.Header{}}
				a.mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
				b.SetBytes(w.size)
			}
		})
	}
}

// discard is a client that counts what it gets.
type discard struct {
	header http.Header
	size   int64
}

func (d *discard) Header() http.Header { return d.header }

func (d *discard) WriteHeader(int) {}

func (d *discard) Write(b []byte) (int, error) {
	d.size += int64(len(b))
	return io.Discard.Write(b)
}

// TestStoreErrorsAreNotTheUsers: what the store cannot give is told as that, and not as a fault of the request.
func TestStoreErrorsAreNotTheUsers(t *testing.T) {
	for err, want := range map[error]bool{&tasktable.FilterError{Text: "no"}: true,
		&tasktable.UnknownColumnError{Column: "x"}: true, errors.New("connection reset"): false} {
		given := refusedFilter(err)
		says.True(t, want == (status(given) == http.StatusBadRequest), "%v: %v, want a refusal: %t", err, given, want)
	}
}

func TestRuntimeEnvInfo(t *testing.T) {
	for env, want := range map[string]string{
		"":   `{"serialized_runtime_env": ""}`,
		"{}": `{"serialized_runtime_env": "{}", "runtime_env_config": {"setup_timeout_seconds": 600, "eager_install": true, "log_files": []}}`,
		`{"working_dir":"gcs://a.zip"}`: `{"serialized_runtime_env": "{\"working_dir\":\"gcs://a.zip\"}", "uris": {"working_dir_uri": "gcs://a.zip", ` +
			`"py_modules_uris": []}, "runtime_env_config": {"setup_timeout_seconds": 600, "eager_install": true, "log_files": []}}`,
		`{"py_modules":["gcs://b.zip"],"config":{"setup_timeout_seconds":-1,"eager_install":false,"other":1}}`: `{"serialized_runtime_env": ` +
			`"{\"py_modules\":[\"gcs://b.zip\"],\"config\":{\"setup_timeout_seconds\":-1,\"eager_install\":false,\"other\":1}}", ` +
			`"uris": {"working_dir_uri": "", "py_modules_uris": ["gcs://b.zip"]}, ` +
			`"runtime_env_config": {"setup_timeout_seconds": -1, "eager_install": false, "log_files": []}}`,
		"broken": `{"serialized_runtime_env": "broken"}`,
	} {
		says.Equal(t, string((&taskEncoder{}).appendRuntimeEnv(nil, []byte(env))), want, "%q", env)
	}
}

// TestBrokenExtraData: extra data that is no JSON, or was none when it was stored, spoils neither the list of tasks nor
// the timeline.
func TestBrokenExtraData(t *testing.T) {
	const task = `"taskId": "AAAAAAAAAAAAAAAAAAAAAAAAAAACAAAA", "taskAttempt": 0, "attemptNumber": 0, "jobId": "AgAAAA=="`
	event := func(kind, body string) string {
		return fmt.Sprintf(`{"eventType": %q, "timestamp": "2026-11-22T10:06:06Z", "sessionName": %q, %s}`, kind,
			rayevents.Session.Name, body)
	}
	for _, extra := range []string{`{\"a\": 1}`, `{\"a\": NaN}`, `{\"a\": 1e}`, `{\"a\": tru}`, `{\"a\": -}`, `{\"a\"}`,
		`[1]`} {
		a := toldBy(t, []string{
			event("TASK_DEFINITION_EVENT", `"taskDefinitionEvent": {`+task+
				`, "taskType": "NORMAL_TASK", "taskName": "f"}`),
			event("TASK_PROFILE_EVENT", `"taskProfileEvents": {`+task+
				`, "profileEvents": {"componentType": "worker", "componentId": "AQ==", `+
				`"nodeIpAddress": "10.0.0.1", "events": [{"startTime": "5000", "endTime": "9000", "extraData": "`+extra+
				`", "eventName": "task:execute"}]}}`),
		}, nil)
		for _, url := range []string{"/api/v0/tasks?detail=1", "/api/v0/tasks/timeline"} {
			w := a.get(url)
			if _, err := pyjson.Parse(w.Body.Bytes()); err != nil || w.Code != http.StatusOK {
				t.Errorf("%s with %s: %d %v: %s", url, extra, w.Code, err, w.Body)
			}
		}
	}
}
