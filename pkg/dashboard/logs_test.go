package dashboard

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// withLogs is a session of one node with logs; paths may spell offsets of chunks.
func withLogs(t *testing.T, files map[string]string) (*asker, string) {
	t.Helper()
	node := rayid.Node{0x11, 27: 0x58}
	dir := t.TempDir()
	for path, text := range files {
		put(t, dir, layout.LogKey(layout.DefaultRoot, lab, node, path), text)
	}
	return newAsker(t, load(t, dir, lab), Options{}), node.String()
}

func TestLogFile(t *testing.T) {
	a, node := withLogs(t, map[string]string{
		"raylet.out":                       "one\n",
		"raylet.out.@00000000000000000004": "two\nthree\n",
		"colour.log":                       "\x1b[32mgreen\x1b[0m\x1b[1;31mred\x1b[0m\n",
		"empty.log":                        "",
		"serve/replica.log":                "replica\n",
		"worker-" + strings.Repeat("ab", 28) + "-01000000-77.out": "of 77\n",
		"job-driver-my-job.log":                                   "submitted\n",
	})
	file := "/api/v0/logs/file?node_id=" + node + "&filename="
	for url, want := range map[string]string{
		file + "raylet.out":                         "one\ntwo\nthree\n",
		file + "raylet.out&lines=2":                 "two\nthree\n",
		file + "raylet.out&lines=-1":                "one\ntwo\nthree\n",
		file + "raylet.out&lines=0":                 "one\ntwo\nthree\n",
		file + "raylet.out&timeout=30&interval=0.5": "one\ntwo\nthree\n",
		file + "colour.log":                         "\x1b[32mgreen\x1b[0m\x1b[1;31mred\x1b[0m\n",
		file + "colour.log&filter_ansi_code=true":   "greenred\n",
		file + "colour.log&filter_ansi_code=TRUE":   "greenred\n",
		file + "empty.log":                          "",
		file + "serve/replica.log":                  "replica\n",
		file + "./serve/../raylet.out&lines=1":      "three\n",
		file + "/tmp/ray/session_2026-11-20_23-19-45_581717_22125/logs/raylet.out&lines=1": "three\n",
		file + "/mnt/ray/session_latest/logs/raylet.out&lines=1":                           "three\n",
		"/api/v0/logs/stream?node_id=" + node + "&filename=raylet.out&interval=1":          "one\ntwo\nthree\n",
		"/api/v0/logs/file?node_id=" + node + "&pid=77":                                    "of 77\n",
		"/api/v0/logs/file?node_id=" + node + "&worker_id=" + strings.Repeat("ab", 28):     "of 77\n",
		"/api/v0/logs/file?submission_id=my-job":                                           "submitted\n",
	} {
		if w := a.get(url); w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%s: %d %q, want %q", url, w.Code, w.Body, want)
		}
	}
	for url, want := range map[string]string{
		file + "../../etc/passwd":            "A file is not found at: /tmp/ray/etc/passwd",
		file + "/etc/passwd":                 "A file is not found at: /etc/passwd",
		file + "nope.log":                    "A file is not found at: /tmp/ray/session_2026-11-20_23-19-45_581717_22125/logs/nope.log",
		file + "serve":                       "A file is not found at: /tmp/ray/session_2026-11-20_23-19-45_581717_22125/logs/serve",
		file + "raylet.out&lines=x":          "invalid literal for int() with base 10: 'x'",
		file + "raylet.out&lines=-2":         "Invalid lines: -2. Must be -1 for all or a number of lines.",
		file + "raylet.out&interval=x":       "could not convert string to float: 'x'",
		file + "raylet.out&suffix=log":       "Invalid suffix: log. Must be one of 'out' or 'err'.",
		file + "raylet.out&node_ip=10.0.0.1": "Both node_id and node_ip are given. Only one of them can be provided. Given node id: " + node + ", given node ip: 10.0.0.1",
		"/api/v0/logs/file?node_id=" +
			node: "None of actor_id, task_id, pid, submission_id or filename is provided. At least one of them is required to fetch logs.",
		"/api/v0/logs/file?filename=raylet.out":                 "node_id or node_ip must be provided as constructor arguments when no actor or task_id is supplied as arguments.",
		"/api/v0/logs/tape?filename=raylet.out&node_id=" + node: "Invalid media type: tape",
		"/api/v0/logs/file?node_id=ffff&filename=a":             "Node ffff is not part of this session. /api/v0/nodes lists its nodes.",
		"/api/v0/logs/file?node_ip=1.2.3.4&filename=a":          "Cannot find matching node_id for a given node ip 1.2.3.4",
		"/api/v0/logs/file?actor_id=xyz":                        "Odd-length string",
		"/api/v0/logs/file?actor_id=" + strings.Repeat("ab", 16): "Actor ID ActorID(" +
			strings.Repeat("ab", 16) + ") not found.",
		"/api/v0/logs/file?task_id=ab": "ID string needs to have length 24, got 1",
		"/api/v0/logs/file?task_id=" + strings.Repeat("ab", 24) +
			"&attempt_number=1": "Could not find log file for task attempt:" + strings.Repeat("ab", 24) + "(1)",
	} {
		if w := a.get(url); w.Code < 400 || w.Code >= 600 || w.Body.String() != want {
			t.Errorf("%s:\ngot  %d %s\nwant %s", url, w.Code, w.Body, want)
		}
	}
	if w := a.get("/api/v0/logs/file?node_id=" + node + "&pid=78"); !strings.HasPrefix(w.Body.String(),
		"Could not find a log file. Please make sure") ||
		!strings.Contains(w.Body.String(), "\tpid: 78\n\tsuffix: out\n") {
		t.Errorf("unknown pid: %d %s", w.Code, w.Body)
	}
}

// TestLogHeaders: what is saved has the log's own name, unless the request gives one.
func TestLogHeaders(t *testing.T) {
	a, node := withLogs(t, map[string]string{"raylet.out": "x\n", "serve/replica_Front.log": "x\n"})
	for file, want := range map[string]string{"raylet.out": "raylet.out", "serve/replica_Front.log": "replica_Front.log",
		"raylet.out&download_filename=a%22b%0d%0ac.txt": "a_b__c.txt"} {
		header := a.get("/api/v0/logs/file?node_id=" + node + "&filename=" + file).Header()
		says.Equal(t, header.Get("Content-Disposition"), `attachment; filename="`+want+`"`, file)
		says.Equal(t, header.Get("Content-Type"), "text/plain", file)
	}
}

func TestLogList(t *testing.T) {
	a, node := withLogs(t, map[string]string{"raylet.out": "x\n", "raylet.out.@00000000000000000002": "y\n",
		"serve/replica.log": "z\n"})
	const want = `{"result": true, "msg": "", "data": {"result": {"internal": ["events/", "nsight/", "old/", "profiles/", "rocprof_sys/", "serve/"], "raylet": ["raylet.out"]}}}`
	says.Equal(t, a.get("/api/v0/logs?node_id="+node).Body.String(), want)
	says.Equal(t, a.get("/api/v0/logs?glob=serve/*&node_id="+strings.ToUpper(node)).Body.String(),
		`{"result": true, "msg": "", "data": {"result": {"internal": ["serve/replica.log"]}}}`)
	for url, status := range map[string]int{
		"/api/v0/logs": 400, "/api/v0/logs?node_id=ffff": 404, "/api/v0/logs?node_ip=1.2.3.4": 404,
		"/api/v0/logs?glob=../*&node_id=" + node:                                400,
		"/api/v0/logs?glob=" + strings.Repeat("*", 60_000) + "&node_id=" + node: 400,
	} {
		if w := a.get(url); w.Code != status || !strings.Contains(w.Body.String(), `"result": false`) {
			t.Errorf("%s: %d %s, want %d", url, w.Code, w.Body, status)
		}
	}
}

// TestTaskLog: of a log that many tasks share, an attempt's own lines; an actor's log in its own file.
func TestTaskLog(t *testing.T) {
	a := recorded(t)
	for _, answer := range recording.Open(t).Golden() {
		if !strings.HasPrefix(answer.URL, "/api/v0/logs/file?task_id=") &&
			!strings.HasPrefix(answer.URL, "/api/v0/logs/file?actor_id=") || answer.Status != http.StatusOK {
			continue
		}
		if w := a.get(answer.URL); w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), answer.Body) {
			t.Errorf("%s:\ngot  %d %q\nwant %q", answer.URL, w.Code, w.Body, answer.Body)
		}
	}
}

// TestJobsFromLogs: submissions that no event and no snapshot tells of.
func TestJobsFromLogs(t *testing.T) {
	a, node := withLogs(t, map[string]string{
		"job-driver-good.log":      "2026-11-20 23:20:47,496\tINFO job_manager.py:581 -- Runtime env is setting up.\nRunning entrypoint for job good: python good.py --a 'b c'\nhello\n",
		"jobs/supervisor-good.log": "2026-11-20 23:20:49,000\tINFO job_supervisor.py:437 -- Job good entrypoint command exited with code 0 timestamp_ns=1795216849000000000\n",
		"job-driver-bad.log":       "2026-11-20 23:20:50,000\tINFO job_manager.py:581 -- Runtime env is setting up.\nRunning entrypoint for job bad: python bad.py\n" + strings.Repeat("line\n", 20),
		"jobs/supervisor-bad.log":  "x\nJob bad entrypoint command exited with code -9 timestamp_ns=1795216852000000000\n",
		"job-driver-waits.log":     "2026-11-20 23:20:55,000\tINFO job_manager.py:581 -- Runtime env is setting up.\n",
		"job-driver-runs.log":      "2026-11-20 23:20:56,000\tINFO job_manager.py:581 -- Runtime env is setting up.\nRunning entrypoint for job runs: sleep 9\n",
		"job-driver-refused.log":   "2026-11-20 23:20:57,000\tINFO job_manager.py:583 -- Runtime env is setting up.\n2026-11-20 23:20:57,002\tWARNING job_manager.py:622 -- Failed to start supervisor actor for job refused: 'no such option'. Full traceback:\nValueError: no such option\n",
		"events/event_JOBS.log": `{"event_id": "1", "source_type": "JOBS", "message": "Started a ray job halted.", "timestamp": "1795216860", "custom_fields": {"submission_id": "halted"}}` + "\n" +
			`{"event_id": "2", "source_type": "JOBS", "message": "Completed a ray job halted with a status STOPPED.", "timestamp": "1795216865", "custom_fields": {"submission_id": "halted"}}` + "\n",
	})
	want := map[string]string{
		"good":    `"SUCCEEDED" "Job finished successfully." null "python good.py --a 'b c'" 1795216847496 1795216849000 0`,
		"bad":     `"FAILED" "Job entrypoint command failed with exit code -9, last available logs (truncated to 20,000 chars):\n` + strings.Repeat(`line\n`, 10) + `" "JOB_ENTRYPOINT_COMMAND_ERROR" "python bad.py" 1795216850000 1795216852000 -9`,
		"waits":   `"PENDING" "Job has not started yet." null null 1795216855000 null null`,
		"runs":    `"RUNNING" "Job is currently running." null "sleep 9" 1795216856000 null null`,
		"refused": `"FAILED" "Failed to start supervisor actor refused: 'no such option'. Full traceback:\nValueError: no such option\n" "JOB_SUPERVISOR_ACTOR_START_FAILURE" null 1795216857000 1795216857000 null`,
		"halted":  `"STOPPED" "Job was intentionally stopped." null null 1795216860000 1795216865000 null`,
	}
	rows := a.body("/api/jobs/").([]any)
	says.Equal(t, len(rows), len(want), "jobs")
	for _, v := range rows {
		row := v.(*pyjson.Object)
		var got []string
		for _, c := range []string{"status", "message", "error_type", "entrypoint", "start_time", "end_time",
			"driver_exit_code"} {
			got = append(got, string(pyjson.Append(nil, row.Get(c))))
		}
		says.Equal(t, strings.Join(got, " "), want[row.String("submission_id")], row.String("submission_id"))
	}
	if got := a.body("/api/jobs/good/logs").(*pyjson.Object).String("logs"); !strings.HasSuffix(got, "hello\n") {
		t.Errorf("log of good: %q", got)
	}
	says.Equal(t, a.body("/api/jobs/good").(*pyjson.Object).String("driver_node_id"), node, "node")
	for url, wantStatus := range map[string]int{"/api/jobs/nope": 404, "/api/jobs/nope/logs": 404} {
		if w := a.get(url); w.Code != wantStatus || w.Body.String() != "Job nope does not exist" {
			t.Errorf("%s: %d %s", url, w.Code, w.Body)
		}
	}
}

// TestJobLogTail: a WebSocket sends the log and closes.
func TestJobLogTail(t *testing.T) {
	log := "2026-11-20 23:20:47,496\tINFO\nRunning entrypoint for job good: x\n" + strings.Repeat("ü€😀\n", 20_000)
	a, _ := withLogs(t, map[string]string{"job-driver-good.log": log})
	server := httptest.NewServer(a.mux)
	defer server.Close()
	address := strings.Replace(server.URL, "http://", "ws://", 1) + "/api/jobs/"
	ws, _, err := websocket.Dial(t.Context(), address+"good/logs/tail", nil)
	must.OK(t, err)
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(4 << 20) // that of aiohttp, which Ray's client is built with
	var got strings.Builder
	for {
		kind, text, err := ws.Read(t.Context())
		if err != nil {
			// A connection that ends otherwise is an error to Ray's client.
			says.Equal(t, websocket.CloseStatus(err), websocket.StatusNormalClosure, "it ends with %v", err)
			break
		}
		must.True(t, kind == websocket.MessageText && utf8.Valid(text), "%v, or a text is cut within a character", kind)
		got.Write(text)
	}
	says.Equal(t, got.String(), log, "%d bytes, want %d", got.Len(), len(log))
	_, _, err = websocket.Dial(t.Context(), address+"nope/logs/tail", nil)
	says.True(t, err != nil, "the log of an unknown job")
	elsewhere := &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://evil.example"}}}
	if _, resp, err := websocket.Dial(t.Context(), address+"good/logs/tail", elsewhere); err == nil ||
		resp.StatusCode != http.StatusForbidden {
		t.Errorf("from another site's page: %v", err)
	}
}

// TestNothingIsSentBeforeAnError: a log that cannot be read is answered with an error, also if what was read may be the
// beginning of a colour.
func TestNothingIsSentBeforeAnError(t *testing.T) {
	store := storetest.New()
	set := sessionlogs.New(store)
	for offset, text := range map[int64]string{0: "\x1b[3", 3: "1mred\n"} {
		key := layout.LogChunkKey(layout.LogKey("log", lab, rayid.Node{1}, "a.log"), offset, layout.Plain)
		if offset == 0 {
			store.Objects[key] = []byte(text) // the other is lost
		}
		o := must.Get(layout.ParseObject("log", lab, key))(t)
		set.Add(o, blob.Object{Key: key, Size: int64(len(text))})
	}
	w := httptest.NewRecorder()
	r := &Request{Request: httptest.NewRequest(http.MethodGet, "/", nil),
		Moment: moment.Moment{Session: &session.Session{Logs: set}, Running: stillRunning,
			Env: moment.NewEnv(silent.Logger(), nil)}}
	f, err := set.Open(t.Context(), rayid.Node{1}, "a.log")
	must.OK(t, err)
	err = sendLog(w, r, &options{mediaType: "file", lines: -1, filterANSI: true},
		part{file: f, name: "a.log", end: 8, open: true})
	says.True(t, err != nil && w.Body.Len() == 0 && w.Header().Get("Content-Disposition") == "",
		"error %v after %q, %v", err, w.Body, w.Header())
	// Who follows a log has the answer's beginning already.
	defer func() {
		cause := recover()
		says.True(t, cause == http.ErrAbortHandler && w.Flushed, "a stream ends with %v, begun: %v", cause, w.Flushed)
	}()
	err = sendLog(w, r, &options{mediaType: "stream", lines: -1, filterANSI: true},
		part{file: f, name: "a.log", end: 8, open: true})
	t.Errorf("a stream that has begun ends with %v", err)
}

// TestNothingIsSentBeforeAnErrorOfAJob is the same for the log of a submission.
func TestNothingIsSentBeforeAnErrorOfAJob(t *testing.T) {
	dir, node := t.TempDir(), rayid.Node{0x11, 27: 0x58}
	whole := layout.LogKey(layout.DefaultRoot, lab, node, "job-driver-good.log")
	put(t, dir, whole, "2026-11-20 23:20:47,496\tINFO\nRunning entrypoint for job good: x\n")
	a := newAsker(t, load(t, dir, lab), Options{})
	w := a.get("/api/jobs/good/logs")
	must.True(t, w.Code == http.StatusOK, "%d %q", w.Code, w.Body)
	must.OK(t, os.Remove(filepath.Join(dir, whole)))
	if w := a.get("/api/jobs/good/logs"); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "entrypoint") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func stillRunning(context.Context) bool { return true }

// TestFollowersEnd: a client that goes away ends the stream, and so does a server that closes.
func TestFollowersEnd(t *testing.T) {
	for want, ends := range map[error]func(d *Dashboard){
		context.DeadlineExceeded: func(*Dashboard) {}, http.ErrServerClosed: (*Dashboard).Close,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			d := New(Options{})
			time.AfterFunc(10*time.Second, func() { ends(d) })
			r := &Request{Moment: moment.Moment{Running: stillRunning}, closing: d.closing.Done()}
			says.Equal(t, followLog(ctx, &sessionlogs.File{}, 0, r, httptest.NewRecorder()), want)
		})
	}
}

// TestFollow: the stream of a running session's log sends what is stored while it is open, and ends with the session.
func TestFollow(t *testing.T) {
	node := rayid.Node{0x11, 27: 0x58}
	const file, task = "filename=raylet.out", "ABEiM0RVZneImaq7zN3u/wABEiMBAAAA"
	for _, tt := range []struct {
		name, media, query string
		asked              int // how often it is answered that the session runs
		want               string
	}{
		{"running", "stream", file, 3, "a\nb\nc\nlast\n"},
		{"from the last line", "stream", file + "&lines=1", 3, "b\nc\nlast\n"},
		{"ended", "stream", file, 0, "a\nb\n"},
		{"a file is no stream", "file", file, 3, "a\nb\n"},
		{"of a task that begins beyond what is stored", "stream",
			"task_id=00112233445566778899aabbccddeeff0001122301000000", 3, "last\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			whole := layout.LogKey(layout.DefaultRoot, lab, node, "raylet.out")
			store := func(offset int64, text string) {
				t.Helper()
				put(t, dir, layout.LogChunkKey(whole, offset, layout.Plain), text)
			}
			store(0, "a\nb\n")
			put(t, dir, layout.NodeEventsKey(layout.DefaultRoot, lab, node, time.Unix(1795216800, 0)), fmt.Sprintf(
				`{"taskLifecycleEvent": {"taskId": %q, "jobId": "AQAAAA==", "nodeId": %q, "stateTransitions": [`+
					`{"state": "RUNNING", "timestamp": "2026-11-20T23:20:02Z"}], "taskLogInfo": {"stdoutFile": `+
					`"raylet.out", "stdoutStart": 6}}}`+"\n", task, base64.StdEncoding.EncodeToString(node[:])))
			s := load(t, dir, lab)
			url := "/api/v0/logs/" + tt.media + "?node_id=" + node.String() + "&" + tt.query
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				running := func(context.Context) bool {
					switch asked++; asked {
					case 2:
						store(4, "c\n")
					case tt.asked + 1:
						store(6, "last\n")
					}
					return asked <= tt.asked
				}
				w := httptest.NewRecorder()
				r := &Request{
					Request: httptest.NewRequest("GET", url, nil),
					Moment:  moment.Moment{Session: s, Running: running, Env: moment.NewEnv(logrus.New(), nil)},
				}
				r.SetPathValue("media_type", tt.media)
				must.OK(t, oneLog(w, r))
				got := w.Body.String()
				says.True(t, w.Code == 200 && got == tt.want, "%d %q, want %q", w.Code, got, tt.want)
			})
		})
	}
}

// TestLogsOfASavedNode: a node that only the saved list has is part of the session, though it left no logs.
func TestLogsOfASavedNode(t *testing.T) {
	dir, node := t.TempDir(), strings.Repeat("aa", rayid.NodeSize)
	put(t, dir, layout.SnapshotKey(layout.DefaultRoot, lab, "/nodes?view=summary"),
		fmt.Sprintf(`{"data": {"summary": [{"raylet": {"nodeId": %q, "state": "ALIVE"}}]}}`, node))
	a := newAsker(t, load(t, dir, lab), Options{})
	for id, status := range map[string]int{node: 200, strings.Repeat("ab", rayid.NodeSize): 404, "x": 404} {
		says.Equal(t, a.get("/api/v0/logs?node_id="+id).Code, status, id)
	}
}
